"""Checks a deployment: what is wrong with its database, its settings and its files, and what to do about it."""

from .examination import examine
from .findings import EXIT_CODES, DoctorLimits, DoctorReport, Finding, Severity
from .repairs import repair

__all__ = ["EXIT_CODES", "DoctorLimits", "DoctorReport", "Finding", "Severity", "examine", "repair"]
