"""Ficha: a durable job queue with a credit ledger inside."""

from . import errors
from .app import Ficha
from .checkpoint_manager import CheckpointManager
from .core.policy import Plan
from .core.records import Pool
from .engine.committer import CommitLimits
from .errors import *  # noqa: F403 (every exception is public; its file lists them)
from .operations import LeaseName, Request
from .validation import Limits
from .worker import Accepted, Cancel, FinalError, JobContext, Partial, Retry, StepMismatch, ThreadJobContext

__all__ = [
    "Accepted",
    "Cancel",
    "CheckpointManager",
    "CommitLimits",
    "Ficha",
    "FinalError",
    "JobContext",
    "LeaseName",
    "Limits",
    "Partial",
    "Plan",
    "Pool",
    "Request",
    "Retry",
    "StepMismatch",
    "ThreadJobContext",
]
__all__ += errors.__all__
__all__.sort()
