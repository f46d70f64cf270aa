"""A Ficha server from Python: the operations of the in-process face, over HTTP, with and without `await`.

`Client` and `AsyncClient` are two drivers of the same flows: what is sent, what is retried and what is never retried is
written once. Nothing here opens a database.
"""

from ..core.outcomes import Discarded, Recovered, WorkRemoved
from ..engine.sweeper import SweepReport
from ..engine.views import (
    AccountView,
    ApiKeyView,
    AuditView,
    BatchResumed,
    BatchView,
    BulkActView,
    Credited,
    DeliveryView,
    EntryView,
    EventView,
    FileLink,
    FileView,
    FinishView,
    Happening,
    Hold,
    JobToken,
    JobView,
    KeyView,
    LibraryItem,
    MarginView,
    NewApiKey,
    NewWebhook,
    Page,
    PoolView,
    ProviderView,
    Quote,
    Receipt,
    ScheduleView,
    SessionView,
    ToolView,
    UploadView,
    Wait,
    WebhookView,
    WorkerView,
)
from ..extras import needs_extra
from ..requests import BatchRequest, SubmitRequest
from ..store.base import Stats

with needs_extra("client"):
    from .clients import AsyncClient, Client
from .errors import BadAnswer, ServerError, Unreachable
from .retries import Retries

__all__ = [
    "AccountView",
    "ApiKeyView",
    "AsyncClient",
    "AuditView",
    "BadAnswer",
    "BatchRequest",
    "BatchResumed",
    "BatchView",
    "BulkActView",
    "Client",
    "Credited",
    "DeliveryView",
    "Discarded",
    "EntryView",
    "EventView",
    "FileLink",
    "FileView",
    "FinishView",
    "Happening",
    "Hold",
    "JobToken",
    "JobView",
    "KeyView",
    "LibraryItem",
    "MarginView",
    "NewApiKey",
    "NewWebhook",
    "Page",
    "PoolView",
    "ProviderView",
    "Quote",
    "Receipt",
    "Recovered",
    "Retries",
    "ScheduleView",
    "ServerError",
    "SessionView",
    "Stats",
    "SubmitRequest",
    "SweepReport",
    "ToolView",
    "Unreachable",
    "UploadView",
    "Wait",
    "WebhookView",
    "WorkRemoved",
    "WorkerView",
]
