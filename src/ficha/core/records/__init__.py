"""The values that the rules read and write: one class per word of the glossary.

Records are frozen. A record never holds what can be derived from another one, with one exception: an account
carries counters over its jobs and reservations, so that a submit or a finish reads one row (`invariants.py` proves
that they agree).
Payloads and results are JSON text that no rule reads; they are passed beside the records, not inside them.

Each noun has a file; everything is imported from here.
"""

from .accounts import Account, AccountRows, Entry, EntryKind, Key, KeyName, KeyScope, Reservation, ReservationState
from .api_keys import ApiKey, ApiKeyScope, ApiKeyUse, AuditLine
from .base import Record
from .brakes import Brake
from .bulk_acts import BulkAct, BulkFailure, BulkState, BulkVerb
from .configuration import Configuration, Shape
from .figures import FigureCursor, Figures, Histogram, JobCounts, Measures, QueueCount, Rollup
from .files import File, FileRole, FileState, FileUsage
from .hooks import DeclaredHook, HookName, PendingHook
from .jobs import Batch, Checkpoint, Content, ContentName, Event, Job, JobSpec, Status, Step
from .keyed import Keyed, KeyedName
from .places import HELD, HELD_BACK_AT, WAITING, Awaiting, Leased, Parked, Place, Ready
from .pools import Leader, Pool, Tally, TallyKind, Worker
from .providers import ProviderOutage, ProviderState
from .retention import KeptJob, RetentionCursor
from .schedules import Schedule
from .sessions import PageSession, PageSessions
from .webhooks import Delivery, DeliveryState, Endpoint, WebhookEndpoints

__all__ = [
    "HELD",
    "HELD_BACK_AT",
    "WAITING",
    "Account",
    "AccountRows",
    "AnyKeyed",
    "ApiKey",
    "ApiKeyScope",
    "ApiKeyUse",
    "AuditLine",
    "Awaiting",
    "Batch",
    "Brake",
    "BulkAct",
    "BulkFailure",
    "BulkState",
    "BulkVerb",
    "Checkpoint",
    "Configuration",
    "Content",
    "ContentName",
    "DeclaredHook",
    "Delivery",
    "DeliveryState",
    "Endpoint",
    "Entry",
    "EntryKind",
    "Event",
    "FigureCursor",
    "Figures",
    "File",
    "FileRole",
    "FileState",
    "FileUsage",
    "Histogram",
    "HookName",
    "Job",
    "JobCounts",
    "JobSpec",
    "KeptJob",
    "Key",
    "KeyName",
    "KeyScope",
    "Keyed",
    "KeyedName",
    "Leader",
    "Leased",
    "Measures",
    "PageSession",
    "PageSessions",
    "Parked",
    "PendingHook",
    "Place",
    "Pool",
    "ProviderOutage",
    "ProviderState",
    "QueueCount",
    "Ready",
    "Record",
    "Reservation",
    "ReservationState",
    "RetentionCursor",
    "Rollup",
    "Schedule",
    "Shape",
    "Status",
    "Step",
    "Tally",
    "TallyKind",
    "WebhookEndpoints",
    "Worker",
]

AnyKeyed = (
    Leader
    | ProviderState
    | ProviderOutage
    | WebhookEndpoints
    | Delivery
    | File
    | FileUsage
    | PageSessions
    | FigureCursor
    | Rollup
    | BulkAct
    | Brake
    | Schedule
    | RetentionCursor
    | KeptJob
    | DeclaredHook
    | Configuration
)
