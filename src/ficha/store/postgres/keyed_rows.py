"""Locks, loads and writes keyed records in PostgreSQL, as parts of the statements of a group."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Final

from ...core.needs import Needs
from ...core.snapshot import Changes, Snapshot
from ..keyed.tables import KEYED
from .dialect import SQL, uuids
from .load_statements import NO_ACCOUNT, LoadStatement, load_part
from .parts import WAYS, Filled, split

LOCK_KEYED: Final = {
    kind: load_part(
        table.kind(table.key[0]),
        f"SELECT '{kind}', {NO_ACCOUNT}, NULL::text[], ROW({SQL.selected(table, 'e')}) FROM "
        f"(SELECT * FROM ficha.{table.name} WHERE {table.key[0]} = ANY ({{0}}) ORDER BY {table.key[0]} {{lock}}) e",
    )
    for kind, table in KEYED.items()
}
"""Locks the rows and reads them, kind by kind, in the order of the tables."""
_WRITES: Final = {kind: [part(f"{table.name}_{what}", table) for what, part in WAYS] for kind, table in KEYED.items()}
KEYED_PARTS: Final = tuple(part for parts in _WRITES.values() for part in parts)


def lock_keyed(asked: LoadStatement, needs: Needs) -> None:
    """Adds the parts that lock the needed records."""
    for kind, part in LOCK_KEYED.items() if needs.keyed else ():
        keys = sorted(key for named, key in needs.keyed if named == kind)
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
