"""The audit log: a line for each command that names its caller, and lines for what Ficha does by itself.

Each rule says what its line contains. A line is small whatever the command holds: no payload, no result, no digest of a
key, and texts are cut.
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
    ws.add_audit_line(AuditLine(ws.now, actor, said.act, said.target, kept))


def record_of_system(ws: Workspace, act: str, target: str, **details: float | str | None) -> None:
    """Writes the line for a change that Ficha made by itself and an operator should know of."""
    kept = {name: _cut(value) for name, value in details.items() if value is not None}
    ws.add_audit_line(AuditLine(ws.now, SYSTEM, act, target, kept))


def _is_repeat(outcome: Any) -> bool:
    """Whether the command repeated an earlier one and changed nothing."""
    is_known = getattr(outcome, "repeated", False) or getattr(outcome, "idempotent_hit", False)
    return is_known or not getattr(outcome, "changed", True)


def _cut(value: Any) -> Any:
    return value[:TEXT_LENGTH] + "…" if isinstance(value, str) and len(value) > TEXT_LENGTH else value
