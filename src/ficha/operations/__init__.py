"""In-process operations, by noun: arguments become commands, outcomes become views. Nothing is decided here."""

from .accounts import Accounts
from .batches import Batches
from .beside import Beside
from .leases import Leases, StandingClaim
from .operating import Operating
from .submits import Request, Submits

__all__ = ["Accounts", "Batches", "Beside", "Leases", "Operating", "Request", "StandingClaim", "Submits"]
