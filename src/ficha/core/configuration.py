"""Changes of prices, plans and limits: the first start that declares other values leaves one line in the audit log.

All processes compare with one row, under its lock. A subject (a tool, a plan, the limits) that a process does not
declare is left as it is, because processes may declare different tools. While two releases start by turns, as in a
rolling upgrade, what was told of a subject is not told again for `TOLD_S`: so there are as many lines as values in that
time, not as many as starts, and a change that is taken back at once is told too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from . import audit
from .commands import NoteConfiguration
from .outcomes import ConfigurationNoted
from .policy import SECOND
from .records import Configuration, Shape
from .rule import Needs, Rule
from .workspace import Workspace

ROW: Final = "declared"
TOLD_S: Final = 900
"""For how long a value that was told is not told again."""
SHAPES_KEPT: Final = 4
"""How many values of a subject are compared with, the present one included."""
SUBJECTS_TOLD: Final = 20
"""How many subjects one line names; it says how many more there were."""
NEW_ONES_TOLD: Final = ("tool ", "plan ", "pool ", "retention of ")
"""Of these a new one is told. Others are new when a release of Ficha brings them."""


def note_configuration(ws: Workspace, command: NoteConfiguration) -> ConfigurationNoted:
    row = ws.find(Configuration, ROW)
    known = {} if row is None else dict(row.subjects)
    told: dict[str, str] = {}
    for subject, fields in command.subjects.items():
        shapes = known.get(subject, ())
        same = next((shape for shape in shapes if _is_same(shape.fields, fields)), None)
        if shapes and same is shapes[0]:
            if not fields.keys() <= same.fields.keys():
                # Fields that a release of Ficha brought are noted, to be compared from now on.
                known[subject] = (Shape({**same.fields, **fields}, same.told_at), *shapes[1:])
            continue
        if same is not None and ws.now - same.told_at < TOLD_S * SECOND:
            continue
        if shapes:
            told[subject] = _difference(shapes[0].fields, fields)
        elif row is not None and subject.startswith(NEW_ONES_TOLD):
            told[subject] = "new: " + _listed(fields)
        others = [shape for shape in shapes if shape is not same]
        known[subject] = (Shape(fields, ws.now if subject in told else 0), *others)[:SHAPES_KEPT]
    if row is None or known != row.subjects:
        ws.put(Configuration(ROW, known))
    if told:
        left_out = len(told) - SUBJECTS_TOLD
        details: dict[str, Any] = dict([*told.items()][:SUBJECTS_TOLD])
        if left_out > 0:
            details["more"] = left_out
        audit.record_of_system(ws, "configure", "the application", **details)
    return ConfigurationNoted(tuple(told))


def _is_same(known: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    """Whether the fields that both have are equal: one release of Ficha may have more fields than another."""
    return all(fields[name] == value for name, value in known.items() if name in fields)


def _difference(known: Mapping[str, str], fields: Mapping[str, str]) -> str:
    changed = {
        name: f"{known[name]} → {value}" for name, value in fields.items() if name in known and known[name] != value
    }
    return _listed(changed)


def _listed(fields: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def _needs(wanted: Needs, command: NoteConfiguration) -> None:
    wanted.find(Configuration, ROW)


RULES = (Rule(NoteConfiguration, decide=note_configuration, needs=_needs, locks_account=False),)
