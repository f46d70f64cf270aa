"""In-process operations, by noun: arguments become commands, outcomes become views. Nothing is decided here."""

from .bound import AllOperations, Beside
from .leases import LeaseName, Leases, StandingClaim
from .submits import Request

__all__ = ["AllOperations", "Beside", "LeaseName", "Leases", "Request", "StandingClaim"]
