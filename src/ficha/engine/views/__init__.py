"""What people and programs see of jobs, accounts and the rest: records with dates, parsed JSON and derived figures.

One struct per shape: the operations return them, the server sends them, the clients read them.
"""

from .accounts import (
    AccountView,
    Credited,
    EntryView,
    Hold,
    KeyView,
    account_view,
    credited,
    entry_view,
    hold_view,
    key_view,
)
from .api_keys import ApiKeyView, AuditView, NewApiKey, api_key_view, audit_view
from .batches import BatchCancelled, BatchResumed, BatchView, batch_view
from .dates import instant, moment, moment_if_any
from .files import FileLink, FileView, LibraryItem, UploadView, file_view
from .hooks import HookView, hook_view
from .jobs import (
    STORED_TEXTS,
    EventView,
    Happening,
    JobText,
    JobToken,
    JobView,
    ToolView,
    Wait,
    event_view,
    job_view,
    owner_event_view,
    owner_job_view,
)
from .leases import Lease
from .lists import PAGE_BYTES, Page, PageFiller, Whole
from .pools import PoolView, pool_view
from .providers import BreakerState, MarginView, ProviderView, margin_view, provider_view
from .sessions import SessionView, session_view
from .submits import FinishView, Quote, Receipt, Requeued, finish_view, receipt
from .webhooks import (
    CreditsMessage,
    DeliveryView,
    NewWebhook,
    PingMessage,
    WebhookView,
    delivery_view,
    job_message,
    message_text,
    webhook_view,
)
from .workers import WorkerView, worker_view

__all__ = [
    "PAGE_BYTES",
    "STORED_TEXTS",
    "AccountView",
    "ApiKeyView",
    "AuditView",
    "BatchCancelled",
    "BatchResumed",
    "BatchView",
    "BreakerState",
    "Credited",
    "CreditsMessage",
    "DeliveryView",
    "EntryView",
    "EventView",
    "FileLink",
    "FileView",
    "FinishView",
    "Happening",
    "Hold",
    "HookView",
    "JobText",
    "JobToken",
    "JobView",
    "KeyView",
    "Lease",
    "LibraryItem",
    "MarginView",
    "NewApiKey",
    "NewWebhook",
    "Page",
    "PageFiller",
    "PingMessage",
    "PoolView",
    "ProviderView",
    "Quote",
    "Receipt",
    "Requeued",
    "SessionView",
    "ToolView",
    "UploadView",
    "Wait",
    "WebhookView",
    "Whole",
    "WorkerView",
    "account_view",
    "api_key_view",
    "audit_view",
    "batch_view",
    "credited",
    "delivery_view",
    "entry_view",
    "event_view",
    "file_view",
    "finish_view",
    "hold_view",
    "hook_view",
    "instant",
    "job_message",
    "job_view",
    "key_view",
    "margin_view",
    "message_text",
    "moment",
    "moment_if_any",
    "owner_event_view",
    "owner_job_view",
    "pool_view",
    "provider_view",
    "receipt",
    "session_view",
    "webhook_view",
    "worker_view",
]
