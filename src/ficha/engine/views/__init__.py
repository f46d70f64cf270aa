"""What people and programs see of jobs, accounts and the rest: records with dates, parsed JSON and derived figures.

One struct per shape: the operations return them, the server sends them, the clients read them.
"""

from .accounts import AccountView, EntryView, Hold, KeyView, account_view, entry_view, hold_view, key_view
from .api_keys import ApiKeyView, AuditView, NewApiKey, api_key_view, audit_view
from .dates import instant, moment, moment_if_any
from .figures import BatchView, PoolView, WorkerView, batch_view, pool_view, worker_view
from .jobs import EventView, JobView, Wait, event_view, job_view
from .leases import Lease
from .lists import Page, Whole
from .submits import Quote, Receipt, receipt

__all__ = [
    "AccountView",
    "ApiKeyView",
    "AuditView",
    "BatchView",
    "EntryView",
    "EventView",
    "Hold",
    "JobView",
    "KeyView",
    "Lease",
    "NewApiKey",
    "Page",
    "PoolView",
    "Quote",
    "Receipt",
    "Wait",
    "Whole",
    "WorkerView",
    "account_view",
    "api_key_view",
    "audit_view",
    "batch_view",
    "entry_view",
    "event_view",
    "hold_view",
    "instant",
    "job_view",
    "key_view",
    "moment",
    "moment_if_any",
    "pool_view",
    "receipt",
    "worker_view",
]
