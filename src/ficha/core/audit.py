"""The audit log: a line for each command that names its caller, and lines for what Ficha does by itself.

Each rule says what its line contains. A line is small whatever the command holds: no payload, no result, no digest of a
key, and texts are cut. Words about an account stand apart from the rest of its line, because they leave when the
account is erased.
"""

from __future__ import annotations

from typing import Any, Final

from .commands import Command
from .outcomes import Outcome, Refusal
from .records import AuditLine
from .rule import Rule
from .workspace import Workspace

TEXT_LENGTH: Final = 200
"""How many characters of a free text, such as a reason, a line keeps."""

SYSTEM: Final = "system"
"""The actor of lines that no caller's act caused."""

WORDS: Final = ("reason", "key", "name", "hint", "host")
"""The details that are words of or about a person."""

_TOLD: Final = ("status", "refunded", "new_balance")
"""The fields of an outcome that a line contains, if the outcome has them."""


def record(ws: Workspace, actor: str, rule: Rule[Any], command: Command, outcome: Outcome, **more: str) -> None:
    """Writes the line of a command, unless the command was refused. `more` holds further details."""
    if isinstance(outcome, Refusal) or rule.audit is None:
        return
    said = rule.audit(command, outcome)
    details = said.details | {name: getattr(outcome, name, None) for name in _TOLD} | more
    kept = {name: _cut(value) for name, value in details.items() if value is not None}
    if _is_repeat(outcome):
        kept["changed"] = False
    account_id = _account_of(ws, command, outcome) if not kept.keys().isdisjoint(WORDS) else None
    ws.add_audit_line(_line(ws, actor, said.act, said.target, kept, account_id))


def record_of_system(
    ws: Workspace, act: str, target: str, account_id: str | None = None, **details: float | str | None
) -> None:
    """Writes the line for a change that Ficha made by itself and an operator should know of."""
    kept = {name: _cut(value) for name, value in details.items() if value is not None}
    ws.add_audit_line(_line(ws, SYSTEM, act, target, kept, account_id))


def _line(ws: Workspace, actor: str, act: str, target: str, kept: dict[str, Any], account_id: str | None) -> AuditLine:
    words: dict[str, Any] | None = {name: kept.pop(name) for name in WORDS if name in kept} if account_id else None
    return AuditLine(ws.now, actor, act, target, kept, account_id if words else None, words or None)


def _account_of(ws: Workspace, command: Any, outcome: Any) -> str | None:
    """The account that a command is about; None if it is about none."""
    if account_id := getattr(command, "account_id", None) or getattr(command, "owner", None):
        return str(account_id)
    for owned in (getattr(outcome, "key", None), getattr(outcome, "file", None)):
        if account_id := getattr(owned, "account_id", None):
            return str(account_id)
    job_id = getattr(command, "job_id", None)
    job = None if job_id is None else ws.job(job_id)
    return None if job is None else job.account_id


def _is_repeat(outcome: Any) -> bool:
    """Whether the command repeated an earlier one and changed nothing."""
    is_known = getattr(outcome, "repeated", False) or getattr(outcome, "idempotent_hit", False)
    return is_known or not getattr(outcome, "changed", True)


def _cut(value: Any) -> Any:
    return value[:TEXT_LENGTH] + "…" if isinstance(value, str) and len(value) > TEXT_LENGTH else value
