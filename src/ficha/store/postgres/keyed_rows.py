"""Locks, loads and writes keyed records in PostgreSQL, as parts of the statements of a group."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Final

from ...core.needs import Needs
from ...core.snapshot import Changes, Snapshot
from ..keyed.tables import KEYED
from ..sql.tables import Row, Table
from .dialect import SQL, uuids
from .load_statements import NO_ACCOUNT, LoadStatement, Take, load_part, looked_up, other
from .parts import WAYS, Filled, split


def _into_keyed(kind: str, table: Table) -> Take:
    def take(snapshot: Snapshot, payload: str, rest: Row) -> None:
        snapshot.keyed[kind, rest[0]] = table.record(rest)

    return take


LOCK_KEYED: Final = {
    kind: load_part(
        table.kind(table.key[0]),
        f"SELECT '{kind}', {NO_ACCOUNT}, NULL::text[], ROW({SQL.selected(table, 'e')}) FROM "
        f"(SELECT * FROM ficha.{table.name} WHERE {table.key[0]} = ANY ({{0}}) ORDER BY {table.key[0]} {{lock}}) e",
    )
    for kind, table in KEYED.items()
}
"""Locks the rows and reads them, kind by kind, in the order of the tables."""
LOOK_AT_KEYED: Final = {
    kind: load_part(
        table.kind(table.key[0]),
        other(
            SQL.selected(table, "e"),
            "unnest({0}) AS w (key) " + looked_up(table.name, "e", f"k.{table.key[0]} = w.key"),
        ),
        take=_into_keyed(kind, table),
    )
    for kind, table in KEYED.items()
}
"""Reads the rows without locks, in stage 2."""
_WRITES: Final = {kind: [part(f"{table.name}_{what}", table) for what, part in WAYS] for kind, table in KEYED.items()}
KEYED_PARTS: Final = tuple(part for parts in _WRITES.values() for part in parts)


def lock_keyed(asked: LoadStatement, needs: Needs) -> None:
    """Adds the parts that lock the needed records."""
    for kind, part in LOCK_KEYED.items() if needs.keyed else ():
        keys = sorted(key for named, key in needs.keyed if named == kind)
        asked.add(part, uuids(keys) if part.types == ("uuid",) else keys)


def look_at_keyed(asked: LoadStatement, needs: Needs) -> None:
    """Adds the parts that read records which are not locked."""
    for kind, part in LOOK_AT_KEYED.items() if needs.looked else ():
        keys = sorted(key for named, key in needs.looked if named == kind)
        asked.add(part, uuids(keys) if part.types == ("uuid",) else keys)


def filled_keyed(snapshot: Snapshot, changes: Changes) -> list[Filled]:
    """The parts that the changes need, with their records. A record that is new never overwrites one that another
    transaction has inserted since: the statement fails then, and the group is decided again."""
    filled: list[Filled] = []
    for kind, (gone, new, changed) in _WRITES.items() if changes.keyed or changes.removed_keyed else ():
        known = {name[1]: record for name, record in snapshot.keyed.items() if name[0] == kind}
        filled += split(new, changed, known, [record for record in changes.keyed if type(record).__name__ == kind])
        if removed := sorted(key for named, key in changes.removed_keyed if named == kind):
            filled.append((gone, removed if gone.is_by_id else [(key,) for key in removed]))
    return filled
