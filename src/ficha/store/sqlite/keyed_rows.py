"""Loads and writes keyed records in SQLite, inside the writer's transaction."""

from __future__ import annotations

from typing import Final

import apsw

from ...core.needs import Needs
from ...core.snapshot import Changes, Snapshot
from ..keyed.tables import KEYED
from .dialect import SQL, delete, upsert

# ruff: noqa: S608 (all that is put into these statements are names from this package)
_SELECTS: Final = {
    kind: f"SELECT {SQL.selected(table, 't')} FROM {table.name} t WHERE {table.key[0]} = ?"
    for kind, table in KEYED.items()
}
_UPSERTS: Final = {kind: upsert(table) for kind, table in KEYED.items()}
_DELETES: Final = {kind: delete(table) for kind, table in KEYED.items()}


def load_keyed(db: apsw.Connection, needs: Needs, snapshot: Snapshot) -> None:
    for kind, key in needs.keyed | needs.looked if needs.looked else needs.keyed:
        for row in db.execute(_SELECTS[kind], (key,)):
            snapshot.keyed[kind, key] = KEYED[kind].record(row)


def write_keyed(db: apsw.Connection, changes: Changes) -> None:
    for record in changes.keyed:
        kind = type(record).__name__
        db.execute(_UPSERTS[kind], KEYED[kind].values(record))
    for kind, key in changes.removed_keyed:
        db.execute(_DELETES[kind], (key,))
