"""In-process operations, by noun: arguments become commands, outcomes become views. Nothing is decided here."""

from .bound import AllOperations, BoundOperations
from .leases import LeaseName, LeaseOperations, StandingClaim

__all__ = ["AllOperations", "BoundOperations", "LeaseName", "LeaseOperations", "StandingClaim"]
