"""The outcome of `verify` as a line of the audit log, so that monitoring can tell when it was run and how it ended."""

from __future__ import annotations

from typing import Final

from .commands import NoteVerification
from .outcomes import VerificationNoted
from .rule import Audited, Needs, Rule
from .workspace import Workspace

VERIFIED: Final = "database"
"""The target of the audit line."""


def note_verification(ws: Workspace, command: NoteVerification) -> VerificationNoted:
    """Changes nothing; only its audit line is written."""
    return VerificationNoted(command.violations)


def _audit(command: NoteVerification, _: VerificationNoted) -> Audited:
    return Audited("verify", VERIFIED, {"violations": command.violations})


def _needs_nothing(_: Needs, __: NoteVerification) -> None:
    """The audit line is made from the command alone, so nothing is loaded."""


RULES = (Rule(NoteVerification, decide=note_verification, needs=_needs_nothing, audit=_audit, locks_account=False),)
