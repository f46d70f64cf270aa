"""Queries about brakes."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Final

from ...core.records import Brake
from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Statement
from .tables import KEYED

_BRAKES: Final = KEYED["Brake"]


def list_brakes(sql: Dialect, query: q.ListBrakes, now: int | None) -> Asking[list[Brake]]:
    rows = yield Statement(f"SELECT {sql.selected(_BRAKES, 't')} FROM ficha.brakes t ORDER BY t.name", ())
    return [*map(_BRAKES.record, rows)]


BRAKE_QUESTIONS: Final[Answers] = {
    q.ListBrakes: list_brakes,
}
