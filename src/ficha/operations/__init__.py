"""In-process operations, by noun: arguments become commands, outcomes become views. Nothing is decided here."""

from .bound import AllOperations, BoundOperations
from .hooks import HookOperations
from .leases import LeaseName, LeaseOperations, StandingClaim
from .provider_jobs import ProviderOperations

__all__ = [
    "AllOperations",
    "BoundOperations",
    "HookOperations",
    "LeaseName",
    "LeaseOperations",
    "ProviderOperations",
    "StandingClaim",
]
