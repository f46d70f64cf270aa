"""Ficha: a durable job queue with a credit ledger inside."""

from .app import Ficha
from .checkpoint_manager import CheckpointManager
from .core.policy import Plan
from .core.records import Pool
from .engine.committer import CommitLimits
from .errors import (
    ActiveJobExists,
    CostLimit,
    IdempotencyMismatch,
    InsufficientCredits,
    InvalidArgument,
    InvalidPayload,
    InvalidState,
    LeaseLost,
    NotFound,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    Refused,
    TooLarge,
    UnknownTool,
)
from .operations import LeaseName, Request
from .validation import Limits
from .worker import Accepted, Cancel, FinalError, JobContext, Partial, Retry, StepMismatch, ThreadJobContext

__all__ = [
    "Accepted",
    "ActiveJobExists",
    "Cancel",
    "CheckpointManager",
    "CommitLimits",
    "CostLimit",
    "Ficha",
    "FinalError",
    "IdempotencyMismatch",
    "InsufficientCredits",
    "InvalidArgument",
    "InvalidPayload",
    "InvalidState",
    "JobContext",
    "LeaseLost",
    "LeaseName",
    "Limits",
    "NotFound",
    "Overloaded",
    "Partial",
    "Plan",
    "Pool",
    "QuotaExceeded",
    "RateLimited",
    "Refused",
    "Request",
    "Retry",
    "StepMismatch",
    "ThreadJobContext",
    "TooLarge",
    "UnknownTool",
]
