"""Workers: claim jobs, run their handlers, renew their leases, and write how each run ended."""

from .bulk_runner import BulkRunner
from .collector import Collector
from .context import JobContext, ThreadJobContext
from .delivery_runner import DeliveryRunner
from .due_runner import DueRunner
from .hook_runner import Hook, HookRunner
from .registration import worker_name
from .results import ENDINGS, Accepted, Cancel, FinalError, Partial, Retry, UnstorableValue, UserError
from .sign_runner import SignRunner
from .starter import Starter
from .steps import StepMismatch
from .worker import WorkerLoop, concurrency_for

__all__ = [
    "ENDINGS",
    "Accepted",
    "BulkRunner",
    "Cancel",
    "Collector",
    "DeliveryRunner",
    "DueRunner",
    "FinalError",
    "Hook",
    "HookRunner",
    "JobContext",
    "Partial",
    "Retry",
    "SignRunner",
    "Starter",
    "StepMismatch",
    "ThreadJobContext",
    "UnstorableValue",
    "UserError",
    "WorkerLoop",
    "concurrency_for",
    "worker_name",
]
