"""The audit log: the line that a command leaves there when it is given in somebody's name.

What is said of each command its rule says. A line is small whatever the command holds: no payload, no result, no digest
of a key, and texts are cut.
"""

from __future__ import annotations

from typing import Any, Final

from .commands import Command
from .outcomes import Outcome, Refusal
from .records import AuditLine
from .rule import Rule
from .workspace import Workspace

TEXT_LENGTH: Final = 200
"""Characters of a text that somebody wrote, such as a reason, that a line keeps."""

_TOLD: Final = ("status", "refunded", "balance", "new_balance")
"""What a line tells of an outcome, where the outcome has it."""


def record(ws: Workspace, actor: str, rule: Rule[Any], command: Command, outcome: Outcome) -> None:
    """Writes the line for a command that was not refused."""
    if isinstance(outcome, Refusal) or rule.audit is None:
        return
    said = rule.audit(command, outcome)
    details = said.details | {name: getattr(outcome, name, None) for name in _TOLD}
    kept = {name: _cut(value) for name, value in details.items() if value is not None}
    if _is_repeat(outcome):
        kept["changed"] = False
    ws.add_audit_line(AuditLine(ws.now, actor, said.act, said.target, kept))


def _is_repeat(outcome: Any) -> bool:
    """Whether all was as wanted before, so that nothing was changed now."""
    is_known = getattr(outcome, "repeated", False) or getattr(outcome, "idempotent_hit", False)
    return is_known or not getattr(outcome, "changed", True)


def _cut(value: Any) -> Any:
    return value[:TEXT_LENGTH] + "…" if isinstance(value, str) and len(value) > TEXT_LENGTH else value
