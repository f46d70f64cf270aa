"""Ficha: a durable job queue with a credit ledger inside."""

from . import errors
from .app import Ficha
from .checkpoint_manager import CheckpointManager
from .core.outcomes import Discarded, Recovered
from .core.policy import Plan
from .core.records import Pool
from .engine.committer import CommitLimits
from .engine.sweeper import SweepReport
from .engine.views import (
    AccountView,
    ApiKeyView,
    AuditView,
    BatchView,
    Credited,
    EntryView,
    EventView,
    FinishView,
    Happening,
    Hold,
    HookView,
    JobView,
    KeyView,
    Lease,
    NewApiKey,
    Page,
    PoolView,
    Quote,
    Receipt,
    Wait,
    WorkerView,
)
from .errors import *  # noqa: F403 (every exception is public; its file lists them)
from .operations import LeaseName
from .requests import BatchRequest, SubmitRequest
from .store.base import Stats
from .sync_face import SyncFicha
from .validation import Limits
from .worker import (
    Accepted,
    Cancel,
    FinalError,
    JobContext,
    Partial,
    Retry,
    StepMismatch,
    ThreadJobContext,
    UnstorableValue,
    UserError,
)

__all__ = [
    "Accepted",
    "AccountView",
    "ApiKeyView",
    "AuditView",
    "BatchRequest",
    "BatchView",
    "Cancel",
    "CheckpointManager",
    "CommitLimits",
    "Credited",
    "Discarded",
    "EntryView",
    "EventView",
    "Ficha",
    "FinalError",
    "FinishView",
    "Happening",
    "Hold",
    "HookView",
    "JobContext",
    "JobView",
    "KeyView",
    "Lease",
    "LeaseName",
    "Limits",
    "NewApiKey",
    "Page",
    "Partial",
    "Plan",
    "Pool",
    "PoolView",
    "Quote",
    "Receipt",
    "Recovered",
    "Retry",
    "Stats",
    "StepMismatch",
    "SubmitRequest",
    "SweepReport",
    "SyncFicha",
    "ThreadJobContext",
    "UnstorableValue",
    "UserError",
    "Wait",
    "WorkerView",
]
__all__ += errors.__all__
__all__.sort()
