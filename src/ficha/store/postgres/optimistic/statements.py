"""The layer's statements for PostgreSQL: reads, and the write that happens only if rows are unchanged.

The write begins with a guard: it locks the rows that the group was decided on, without waiting, and returns one row if
each of them still has the same version. The parts that write are those of the plain path, each joined to the guard, so
all of them write or none does.
"""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from ....core.needs import Needs
from ....core.snapshot import Snapshot
from ...base import Clock, Committed, Transient, Unavailable
from ...sql import tables as t
from .. import load_statements as s
from ..connections import BEGIN_SET_UP, Connection, commit, committing, roll_back, speaking
from ..dialect import SQL, Layout, joined, quoted
from ..load import Locked, candidate_values, snapshot_of
from ..parts import Filled, Part, changed
from ..write import NEW_OR_CHANGED, SERVER, answer, filled_parts
from .row_access import AccountsSeen, CachedAccount, ReadySeen, Unchanged, Written
from .row_cache import CLOCK_SLACK_US
from .scan_start import ScanStarts

LOOK_AT_ACCOUNTS: Final = f"""
SELECT {SQL.clock}, a.xmin::text || {SERVER}, a.ctid::text, {SQL.selected(t.ACCOUNTS, "a")} FROM ficha.accounts a
WHERE a.id = ANY ($1::text[])
"""
LOCK_ACCOUNTS: Final = f"{LOOK_AT_ACCOUNTS}ORDER BY a.id FOR NO KEY UPDATE"


def _take_pool(snapshot: Snapshot, payload: str, rest: Any) -> None:
    snapshot.pools[rest[0]] = t.POOLS.record(rest)


# The plain path's columns, and one more with the version of each row.
_READY: Final = s.candidates(f", ready.xmin::text || {SERVER} AS version")
SEEN_READY: Final = s.load_part(s.CANDIDATE_TYPES, s.ready_jobs(", r.version"), cte=_READY, lists="ready")
SEEN_POOLS: Final = s.load_part(
    "text",
    s.other(SQL.selected(t.POOLS, "q"), "ficha.pools q WHERE q.name = ANY ({0})", more=f", q.xmin::text || {SERVER}"),
    take=_take_pool,
)
SEEN_NOW: Final = s.load_part("", f"{s.NOW.selects[0]}, NULL")
SEEN: Final = (SEEN_READY, SEEN_POOLS, SEEN_NOW)
_VERSION: Final = s.REST + 1


class Check(Struct, frozen=True, eq=False):
    """A condition of the guard on the rows `v`; the text finds those of them that exist.

    types: the types of the columns of `v`; each column is an array, passed as one text.
    is_for_all: whether all of the rows must be found, or none.
    """

    types: tuple[str, ...]
    text: str
    is_for_all: bool = True


# An account is found by its position, if that is known, and not by its key: it is written so often that, while a long
# transaction elsewhere keeps its old versions alive, a search by key would scan over all of them.
CHECKS: Final = {
    "accounts": Check(
        ("text", "text", "tid"),
        "SELECT FROM unnest({}) AS v (id, version, position) CROSS JOIN LATERAL (SELECT FROM ficha.accounts a "
        "WHERE a.ctid = coalesce(v.position, (SELECT k.ctid FROM ficha.accounts k WHERE k.id = v.id LIMIT 1)) "
        "AND a.id = v.id AND a.xmin::text || {server} = v.version FOR NO KEY UPDATE SKIP LOCKED) AS found",
    ),
    "leases": Check(
        ("uuid", "text"),
        "SELECT FROM unnest({}) AS v (job_id, version) CROSS JOIN LATERAL (SELECT FROM ficha.leases l "
        "WHERE l.job_id = v.job_id AND l.xmin::text || {server} = v.version FOR NO KEY UPDATE SKIP LOCKED) AS found",
    ),
    "ready": Check(
        ("uuid", "text"),
        "SELECT FROM unnest({}) AS v (job_id, version) CROSS JOIN LATERAL (SELECT FROM ficha.ready r "
        "WHERE r.job_id = v.job_id AND r.xmin::text || {server} = v.version FOR UPDATE SKIP LOCKED) AS found",
    ),
    # Not locked: claims from a pool without a limit must not wait for each other.
    "pools": Check(
        ("text", "text"),
        "SELECT FROM unnest({}) AS v (name, version) CROSS JOIN LATERAL "
        "(SELECT FROM ficha.pools q WHERE q.name = v.name AND q.xmin::text || {server} = v.version OFFSET 0) AS found",
    ),
    "unused_keys": Check(
        ("text", "text", "text"),
        "SELECT FROM unnest({}) AS v (account_id, scope, key) CROSS JOIN LATERAL (SELECT FROM ficha.keys k "
        "WHERE k.account_id = v.account_id AND k.scope = v.scope AND k.key = v.key OFFSET 0) AS found",
        is_for_all=False,
    ),
    "no_brakes": Check(("text",), "SELECT FROM unnest({}) AS v (name) JOIN ficha.brakes USING (name)", False),
    "nothing_ready": Check(
        ("text", "bigint", "bigint"),
        "SELECT FROM unnest({}) AS v (pool, first, beyond) CROSS JOIN LATERAL (SELECT FROM ficha.ready r "
        "WHERE r.pool = v.pool AND r.rank >= v.first AND r.rank < v.beyond LIMIT 1) AS found",
        is_for_all=False,
    ),
}

ACCOUNTS_BY_KEY: Final = Part(
    "accounts_by_key", t.ACCOUNTS, NEW_OR_CHANGED["accounts"][1].text + " RETURNING t.id, t.ctid"
)
ACCOUNTS_BY_POSITION: Final = Part(
    "accounts_by_position",
    t.ACCOUNTS,
    f"UPDATE ficha.accounts AS t SET {changed(t.ACCOUNTS)} FROM {{rows}} "
    "WHERE t.ctid = v.position RETURNING t.id, t.ctid",
)


@lru_cache(maxsize=1024)
def statement(checks: tuple[str, ...], parts: tuple[Part, ...], with_hints: bool) -> str:
    """The text for these checks and parts.

    Parameters: the time, or null if it is not the database's; for each check its columns and, if it is for all, how
    many rows there are; for each part its rows, and for accounts by position their positions; hints.
    """
    number = 2
    holds = [f"($1::bigint IS NULL OR abs({SQL.clock} - $1::bigint) < {CLOCK_SLACK_US})"]
    for name in checks:
        check = CHECKS[name]
        arrays = ", ".join(f"${n}::text::{kind}[]" for n, kind in enumerate(check.types, number))
        number += len(check.types)
        found = check.text.format(arrays, server=SERVER)
        if check.is_for_all:
            holds.append(f"(SELECT count(*) FROM ({found}) AS found) = ${number}::bigint")
            number += 1
        else:
            holds.append(f"NOT EXISTS ({found})")
    ctes = [f"guard AS MATERIALIZED (SELECT WHERE {' AND '.join(holds)})"]
    positions = []
    for part in parts:
        if part is ACCOUNTS_BY_POSITION:
            # The position comes first: whatever columns an account has, they keep their names.
            arrays = f"${number + 1}::text::tid[], ${number}::text::ficha.accounts[]"
            source = f"guard CROSS JOIN unnest({arrays}) AS v (position)"
            ctes.append(f"{part.name} AS ({part.text.format(rows=source)})")
            number += 1
        else:
            ctes.append(part.cte(number, "guard CROSS JOIN "))
        number += 1
        if part.table is t.ACCOUNTS:
            positions.append(f"SELECT ARRAY[id, ctid::text] FROM {part.name}")
    written = f"ARRAY({' UNION ALL '.join(positions)})" if positions else "'{}'::text[]"
    return f"WITH {', '.join(ctes)} SELECT {written}, {answer(number if with_hints else None)} FROM guard"


class PostgresRowAccess(Struct, eq=False):
    """One connection, as the layer uses it."""

    _layout: Layout
    _scans: ScanStarts
    _signed: Callable[[Iterable[str]], list[str]]
    _clock: Clock | None
    _connection: Connection

    async def look_at_accounts(self, names: Sequence[str], *, locks: bool) -> AccountsSeen:
        with speaking(self._connection):
            if locks:
                await self._connection.execute(BEGIN_SET_UP)
            rows = await self._connection.fetch(LOCK_ACCOUNTS if locks else LOOK_AT_ACCOUNTS, names)
        accounts = {row[3]: CachedAccount(t.ACCOUNTS.record(row[3:]), row[1], row[2]) for row in rows}
        return AccountsSeen(rows[0][0] if rows and not locks else None, accounts)

    async def look_at_ready(self, needs: Needs) -> ReadySeen:
        stretches = self._scans.of(needs.ready)
        asked_at = time.monotonic()
        with speaking(self._connection):
            values = candidate_values(needs, stretches)
            found = await self._connection.fetch(s.statement(SEEN), *values, list(needs.pools))
        took_s = time.monotonic() - asked_at
        snapshot = snapshot_of(needs, Locked(), SEEN, found, self._clock)
        self._scans.saw(stretches, snapshot, took_s)
        ready = {row[0]: row[_VERSION] for row in found if row[0] is not None}
        pools = {row[s.REST][0]: row[_VERSION] for row in found if SEEN[row[s.PART]] is SEEN_POOLS}
        return ReadySeen(snapshot, ready, pools)

    async def write_if(
        self, unchanged: Unchanged, snapshot: Snapshot, committed: Committed, marker: tuple[str, int]
    ) -> Written | None:
        if self._connection.is_closed():
            raise Unavailable("the connection was lost before anything was written")
        checks, values = self._checks(unchanged)
        filled = _placed(filled_parts(snapshot, committed.changes, marker), unchanged.accounts)
        for part, records in filled:
            values.append(part.rows(self._layout, records))
            if part is ACCOUNTS_BY_POSITION:
                values.append(_array([unchanged.accounts[record.id].position for record in records]))
        if hints := self._signed(committed.hints):
            values.append(hints)
        text = statement(checks, tuple(part for part, _ in filled), bool(hints))
        try:
            with committing(self._connection, committed):
                rows = await self._connection.fetch(text, *values)
        except Transient:
            if self._connection.is_closed():
                raise
            return None
        if rows and self._connection.is_in_transaction():
            await commit(self._connection, committed)
        return Written(rows[0][1], dict(rows[0][0])) if rows else None

    async def undo(self) -> None:
        await roll_back(self._connection)

    def _checks(self, unchanged: Unchanged) -> tuple[tuple[str, ...], list[Any]]:
        """The checks to make, and their values. Rows are in key order, like all rows that are locked."""
        asked: dict[str, Sequence[Sequence[Any]]] = {
            "accounts": [(key, known.version, known.position) for key, known in sorted(unchanged.accounts.items())],
            "leases": sorted(unchanged.leases.items()),
            "ready": list(unchanged.ready.items()),
            "pools": list(unchanged.pools.items()),
            "unused_keys": sorted(unchanged.unused_keys),
            "no_brakes": sorted((key,) for _, key in unchanged.no_brakes),
            "nothing_ready": [x for found in self._scans.of(unchanged.nothing_ready).values() for x in found],
        }
        values: list[Any] = [unchanged.now]
        for name, rows in asked.items():
            if rows:
                values += map(_array, zip(*rows, strict=True))
                if CHECKS[name].is_for_all:
                    values.append(len(rows))
        return tuple(name for name, rows in asked.items() if rows), values


def _placed(filled: list[Filled], accounts: dict[str, CachedAccount]) -> list[Filled]:
    """Returns the same parts, with accounts written by position where that is known."""
    found: list[Filled] = []
    for part, records in filled:
        if part is NEW_OR_CHANGED["accounts"][1]:
            known = [record for record in records if accounts[record.id].position is not None]
            others = [record for record in records if accounts[record.id].position is None]
            found += [(way, some) for way, some in ((ACCOUNTS_BY_POSITION, known), (ACCOUNTS_BY_KEY, others)) if some]
        else:
            found.append((part, records))
    return found


def _array(values: Sequence[Any]) -> str:
    """A column of values as the text of an array: the driver would look at each element by itself."""
    if type(values[0]) is str and None not in values:
        return '{"' + joined(values).replace("\x00", '","') + '"}'
    return "{" + ",".join("NULL" if v is None else str(v) if type(v) is int else quoted(v) for v in values) + "}"
