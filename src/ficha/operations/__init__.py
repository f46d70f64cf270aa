"""In-process operations, by noun: arguments become commands, outcomes become views. Nothing is decided here."""

from .bound import AllOperations, BoundOperations
from .bulk_acts import BulkOperations
from .file_access import FileAccess
from .hooks import HookOperations
from .leases import LeaseName, LeaseOperations, StandingClaim
from .provider_jobs import ProviderOperations
from .schedules import ScheduleFirer, ScheduleOperations
from .webhooks import WebhookOperations

__all__ = [
    "AllOperations",
    "BoundOperations",
    "BulkOperations",
    "FileAccess",
    "HookOperations",
    "LeaseName",
    "LeaseOperations",
    "ProviderOperations",
    "ScheduleFirer",
    "ScheduleOperations",
    "StandingClaim",
    "WebhookOperations",
]
