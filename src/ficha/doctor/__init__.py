"""Checks a deployment: what is wrong with its database, its settings and its files, and what to do about it."""

from .database import looking_at
from .examination import examine
from .findings import EXIT_CODES, DoctorLimits, DoctorReport, Finding, Severity
from .repairs import repair
from .schema_check import missing_guards

__all__ = [
    "EXIT_CODES",
    "DoctorLimits",
    "DoctorReport",
    "Finding",
    "Severity",
    "examine",
    "looking_at",
    "missing_guards",
    "repair",
]
