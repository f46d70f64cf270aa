"""Writes what a group changed: one statement, built from the parts that it has rows for.

A part is a data-modifying CTE on one table, over the rows `v`, which are passed as one parameter. All parts see the
rows as they were before the statement, so no two parts may write the same row; `job_rows` sorts hot rows accordingly.
"""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ...core.snapshot import Changes, Snapshot
from ..commits import commit_rows
from ..sql import jobs as j
from ..sql import tables as t
from ..sql.tables import Table
from .dialect import Fetcher, Layout
from .listener import CHANNEL


class Part(Struct, frozen=True, eq=False):
    """One CTE. In the text, `{rows}` stands for the source of the rows `v`."""

    name: str
    table: Table
    text: str
    is_by_id: bool = False
    """Whether it needs only the key of a row, which is one uuid."""

    def cte(self, number: int, under: str = "") -> str:
        """The CTE over the rows in the parameter with this number; over none if the source `under` has no row."""
        kind, rows = ("uuid", f"v ({self.table.key[0]})") if self.is_by_id else (f"ficha.{self.table.name}", "v")
        source = f"{under}unnest(${number}::text::{kind}[]) AS {rows}"
        return f"{self.name} AS ({self.text.format(rows=source)})"

    def rows(self, layout: Layout, records: Sequence[Any]) -> str:
        """The parameter for these records."""
        return "{" + ",".join(records) + "}" if self.is_by_id else layout.rows(self.table, records)


Filled = tuple[Part, Sequence[Any]]
"""A part with its records."""


def _insert(name: str, table: Table, tail: str = "") -> Part:
    columns, row = ", ".join(table.names), ", ".join(f"v.{name}" for name in table.names)
    return Part(name, table, f"INSERT INTO ficha.{table.name} ({columns}) SELECT {row} FROM {{rows}}{tail}")


def _upsert(name: str, table: Table) -> Part:
    changed = ", ".join(f"{name} = excluded.{name}" for name in table.names if name not in table.key)
    return _insert(name, table, f" ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changed}")


def _update(name: str, table: Table) -> Part:
    return Part(name, table, f"UPDATE ficha.{table.name} t SET {changed(table)} FROM {{rows}} WHERE {_same_key(table)}")


def changed(table: Table) -> str:
    return ", ".join(f"{name} = v.{name}" for name in table.names if name not in table.key)


def _delete(name: str, table: Table) -> Part:
    """Deletes the rows with these keys."""
    key = tuple(column for column in table.columns if column.name in table.key)
    text = f"DELETE FROM ficha.{table.name} AS t USING {{rows}} WHERE {_same_key(table)}"
    return Part(name, replace(table, columns=key, values=tuple), text, is_by_id=[c.kind for c in key] == ["uuid"])


def _same_key(table: Table) -> str:
    """Compares keys so that the planner can only look rows up by their key, one by one. With a plain `=`, a plan made
    while the statistics say that the table is empty would scan all of it, for as long as the plan is kept."""
    return " AND ".join(f"t.{name} = ANY (ARRAY[v.{name}])" for name in table.key)


_ACCOUNT_IDS: Final = Table("account_ids", ("id",), t.ACCOUNTS.columns[:1], lambda account: (account.id,))
ACCOUNT_IDS: Final = _insert("account_ids_new", _ACCOUNT_IDS)
# A record that did not exist when the group was decided is inserted and never overwrites. If another transaction has
# inserted it since, the statement fails and the group is decided again.
NEW_OR_CHANGED: Final = {
    table.name: (_insert(f"{table.name}_new", table), _update(f"{table.name}_changed", table))
    for table in (t.ACCOUNTS, t.KEYS, t.RESERVATIONS, t.POOLS, t.LEADERS, t.API_KEYS)
}
BORN: Final = _insert("born", j.JOBS)
ENDED: Final = _update("ended", j.JOB_ENDS)
AMENDED: Final = _update("amended", j.JOB_AMENDS)
CHECKPOINTS: Final = _upsert("checkpoints_saved", j.CHECKPOINTS)
PLACES: Final = {
    f"{table.name}_{what}": part(f"{table.name}_{what}", table)
    for table in (j.READY, j.PARKED, j.LEASES)
    for what, part in (("gone", _delete), ("new", _insert), ("changed", _update))
}
# Rows that are not locked before are written in key order, each once, so that two transactions cannot deadlock.
BATCHES: Final = _insert("batches_new", t.BATCHES, " ON CONFLICT (id) DO NOTHING")
UPSERTS: Final = {
    "contents": _upsert("contents_known", t.CONTENTS),
    "workers": _upsert("workers_seen", t.WORKERS),
    "api_key_uses": _upsert("api_key_uses", t.API_KEY_USES),
    "hooks": _upsert("hooks_owed", t.HOOKS),
}
OTHERS: Final = {
    "steps": _insert("steps_saved", t.STEPS, " ON CONFLICT (job_id, name) DO NOTHING"),
    "forgotten_keys": _delete("keys_forgotten", t.KEYS),
    "forgotten_reservations": _delete("reservations_forgotten", t.RESERVATIONS),
    "begun_contents": _insert("contents_begun", t.CONTENTS),
    "forgotten_contents": _delete("contents_forgotten", t.CONTENTS),
    "tallies": _insert("tallies", t.TALLIES),
    "entries": _insert("entries_new", t.ENTRIES),
    "history": _insert("events_new", t.EVENTS),
    "ended_hooks": _delete("hooks_ended", t.HOOKS),
    "audit": _insert("audit_new", t.AUDIT),
}
COMMITS: Final = _insert("commits_new", t.COMMITS)

PARTS: Final = (
    *(ACCOUNT_IDS, *(part for parts in NEW_OR_CHANGED.values() for part in parts)),
    *(BORN, ENDED, AMENDED, *PLACES.values(), CHECKPOINTS, BATCHES, *UPSERTS.values(), *OTHERS.values()),
    COMMITS,
)
"""All parts."""


async def write(
    connection: Fetcher,
    layout: Layout,
    snapshot: Snapshot,
    changes: Changes,
    marker: tuple[str, int] | None = None,
    hints: Sequence[str] = (),
) -> str:
    """Writes the changes, with the marker and hints if there are any; returns the transaction's id."""
    filled = filled_parts(snapshot, changes, marker)
    text = statement(tuple(part for part, _ in filled), bool(hints))
    values = [part.rows(layout, records) for part, records in filled]
    [row] = await connection.fetch(text, *values, *([hints] if hints else []))
    return str(row[0])


@lru_cache(maxsize=1024)
def statement(parts: tuple[Part, ...], with_hints: bool) -> str:
    """The text for these parts. The same parts give the same text, so a connection has it prepared."""
    ctes = ", ".join(part.cte(number) for number, part in enumerate(parts, 1))
    return f"{f'WITH {ctes} ' if ctes else ''}SELECT {answer(len(parts) + 1 if with_hints else None)}"


def answer(hints: int | None) -> str:
    """Selects the transaction's id, and sends the hints in the parameter with this number when it is committed."""
    notified = f"(SELECT count(pg_notify('{CHANNEL}', hint)) FROM unnest(${hints}::text[]) AS w (hint))"
    return "pg_current_xact_id()::xid::text" + (f", {notified}" if hints else "")


def filled_parts(snapshot: Snapshot, changes: Changes, marker: tuple[str, int] | None) -> list[Filled]:
    """The parts that the changes need, with their records."""
    filled: list[Filled] = []
    if opened := [account for account in changes.accounts if snapshot.accounts.get(account.id) is None]:
        filled.append((ACCOUNT_IDS, opened))
    for name, (new, changed) in NEW_OR_CHANGED.items():
        if records := getattr(changes, name):
            filled += _split(new, changed, getattr(snapshot, name), records)
    if changes.jobs:
        filled += _job_parts(changes)
    if changes.batches:
        filled.append((BATCHES, sorted(changes.batches, key=attrgetter("id"))))
    for name, part in UPSERTS.items():
        if records := getattr(changes, name):
            by_key = {attrgetter(*part.table.key)(record): record for record in records}
            filled.append((part, [by_key[key] for key in sorted(by_key)]))
    filled += [(part, records) for name, part in OTHERS.items() if (records := getattr(changes, name))]
    if marker is not None or changes.events:
        filled.append((COMMITS, commit_rows(marker, snapshot.now, changes.events)))
    return filled


def _split(new: Part, changed: Part, known: Mapping[Any, Any], records: list[Any]) -> list[Filled]:
    """Sorts records into those that are new and those that existed before."""
    key = attrgetter(*new.table.key)
    if len(records) > 1:
        records = sorted(records, key=key)
    made = [record for record in records if known.get(key(record)) is None]
    rest = records if not made else [record for record in records if known.get(key(record)) is not None]
    return [(part, found) for part, found in ((new, made), (changed, rest)) if found]


def _job_parts(changes: Changes) -> list[Filled]:
    rows, payloads, results = j.job_rows(changes.jobs), changes.payloads, changes.results
    filled: list[Filled] = [
        (BORN, [(job, payloads[job.id], results.get(job.id)) for job in rows.born]),
        (ENDED, [(job, results.get(job.id)) for job in rows.ended]),
        (AMENDED, rows.amended),
        *((part, rows.places.get(name, ())) for name, part in PLACES.items()),
        (CHECKPOINTS, rows.checkpoints),
    ]
    return [(part, records) for part, records in filled if records]
