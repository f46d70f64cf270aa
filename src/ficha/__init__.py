"""Ficha: a durable job queue with a credit ledger inside."""

from . import errors
from .app import Ficha
from .checkpoint_manager import CheckpointManager
from .core.outcomes import Discarded, Rate, Recovered, Refusal, WorkRemoved
from .core.policy import Plan, Webhooks
from .core.records import Pool
from .engine.committer import CommitLimits
from .engine.positions import QueueStanding
from .engine.sweeper import SweepReport
from .engine.views import (
    AccountView,
    ApiKeyView,
    AuditView,
    BatchResumed,
    BatchView,
    BulkActView,
    Credited,
    DeadGroups,
    DeliveryView,
    EntryView,
    EventView,
    FileLink,
    FileView,
    FinishView,
    Happening,
    Hold,
    HookView,
    JobCount,
    JobPage,
    JobSearch,
    JobView,
    KeyView,
    Lease,
    LibraryItem,
    MarginView,
    NewApiKey,
    NewWebhook,
    Overview,
    Page,
    PoolView,
    ProviderView,
    Quote,
    Receipt,
    ScheduleView,
    SearchWords,
    SessionView,
    UploadView,
    Wait,
    WebhookView,
    WorkerView,
)
from .errors import *  # noqa: F403 (every exception is public; its file lists them)
from .files.inspection_limits import InspectionLimits
from .job_files import JobFile as File
from .job_files import ThreadJobFile as ThreadFile
from .operations import BoundOperations, LeaseName
from .operations.turns import LimitedProvider, Turn
from .providers import Provider
from .requests import BatchOptions, BatchRequest, JobFilter, LibraryFilter, SubmitOptions, SubmitRequest
from .store.base import Stats, Store
from .sync_face import SyncFicha
from .tool_calls import DeclaredTool, ToolSubmit
from .tools import Tool
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
    WorkerLoop,
)

__all__ = [
    "Accepted",
    "AccountView",
    "ApiKeyView",
    "AuditView",
    "BatchOptions",
    "BatchRequest",
    "BatchResumed",
    "BatchView",
    "BoundOperations",
    "BulkActView",
    "Cancel",
    "CheckpointManager",
    "CommitLimits",
    "Credited",
    "DeadGroups",
    "DeclaredTool",
    "DeliveryView",
    "Discarded",
    "EntryView",
    "EventView",
    "Ficha",
    "File",
    "FileLink",
    "FileView",
    "FinalError",
    "FinishView",
    "Happening",
    "Hold",
    "HookView",
    "InspectionLimits",
    "JobContext",
    "JobCount",
    "JobFilter",
    "JobPage",
    "JobSearch",
    "JobView",
    "KeyView",
    "Lease",
    "LeaseName",
    "LibraryFilter",
    "LibraryItem",
    "LimitedProvider",
    "Limits",
    "MarginView",
    "NewApiKey",
    "NewWebhook",
    "Overview",
    "Page",
    "Partial",
    "Plan",
    "Pool",
    "PoolView",
    "Provider",
    "ProviderView",
    "QueueStanding",
    "Quote",
    "Rate",
    "Receipt",
    "Recovered",
    "Refusal",
    "Retry",
    "ScheduleView",
    "SearchWords",
    "SessionView",
    "Stats",
    "StepMismatch",
    "Store",
    "SubmitOptions",
    "SubmitRequest",
    "SweepReport",
    "SyncFicha",
    "ThreadFile",
    "ThreadJobContext",
    "Tool",
    "ToolSubmit",
    "Turn",
    "UnstorableValue",
    "UploadView",
    "UserError",
    "Wait",
    "WebhookView",
    "Webhooks",
    "WorkRemoved",
    "WorkerLoop",
    "WorkerView",
]
__all__ += errors.__all__
__all__.sort()
