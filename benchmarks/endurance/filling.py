"""Fills a database with a queue and a history by copying the rows of jobs that really lived, set by set.

A few jobs go through the engine; every row that they left behind, in whatever table, is then written again for as many
jobs as are wanted, with an id, an account, a key and a time of its own. So the tables hold what the engine would have
written, and every invariant holds, at a hundred times its speed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import apsw
import asyncpg

from ficha import Ficha

from ..databases import Kind
from ..ficha_side import POOL
from ..peer import Wrong
from ..workload import COST, RESULT
from .application import BIG, BIG_AT_ONCE, application, migrate, none_refused, open_accounts, owner, request
from .findings import Say

CHUNK: Final = 250_000
HOUR_US: Final = 3_600_000_000
MILLISECOND_US: Final = 1_000


@dataclass(frozen=True)
class Contents:
    """What a database is to hold: jobs that wait, jobs that wait for the big account's concurrency, jobs that ended.

    ended_days: how many days longer ago they ended. Those that ended long ago have no key any more.
    """

    waiting: int
    parked: int = 0
    finished: int = 0
    ended_days: int = 0


@dataclass(frozen=True)
class _Copies:
    """How often a job is copied, for whom, and over which hours before its own time; and what the copies count as."""

    job_id: str
    count: int
    account: str
    """An expression over the copy's number, `n`."""
    from_h: float
    to_h: float
    is_ready: bool = False
    is_parked: bool = False


class Database(Protocol):
    """A connection that is not the engine's, in one of the two dialects."""

    fresh: str
    """Creates the empty table of copies under way."""
    series: str
    """The numbers from {first} to {last}, as `n`."""
    new_id: str
    """An id made at `ms` milliseconds since 1970; `n` keeps it apart from others."""
    created_us: str

    async def run(self, sql: str) -> None: ...

    async def value(self, sql: str) -> Any: ...

    async def columns(self) -> dict[str, list[str]]:
        """All tables with the columns that can be written."""

    async def indexes(self) -> dict[str, str]:
        """All indexes but those of the keys, with how they are made."""

    def later(self, column: str) -> str:
        """The instant in a column of `t`, moved by `f.shift_us`."""


@asynccontextmanager
async def filled(kind: Kind, contents: Contents, accounts: int, say: Say) -> AsyncIterator[str]:
    """The URL of a database with these contents, settled; it is gone afterwards."""
    async with kind.fresh() as url:
        await migrate(url)
        async with application(url) as app:
            await open_accounts(app, accounts)
            copies = await _live(app, contents, accounts)
        async with _opened(url) as database:
            # Every index but those of the keys is made afterwards, from all rows at once: that takes half the time.
            indexes = await database.indexes()
            for name in indexes:
                await database.run(f"DROP INDEX {name}")
            for each in copies:
                tables = await _originals(database, each.job_id)
                for first in range(0, each.count, CHUNK):
                    await _copy(database, tables, each, first, min(first + CHUNK, each.count))
                    say(f"{kind.name}: {min(first + CHUNK, each.count):,} of {each.count:,} copies")
            for definition in indexes.values():
                await database.run(definition)
        await kind.settle(url)
        if url.startswith("postgresql:"):
            async with _opened(url) as database:
                await database.run("CHECKPOINT")
        yield url


async def _live(app: Ficha, contents: Contents, accounts: int) -> list[_Copies]:
    """Lets one job of each kind live as far as it is to come. They count among the jobs that are wanted."""
    spread = f"'account-' || (n % {accounts})"
    copies = []
    if contents.finished:
        fields = _fields(owner(0, accounts), "ended")
        receipt = await app.submit(**fields | ({"idempotency_key": None} if contents.ended_days else {}))
        leases = await app.claim(POOL, limit=2, worker="worker")
        if [lease.job_id for lease in leases] != [receipt.job_id]:
            raise Wrong(f"a claim in a queue of one job gave {leases}")
        none_refused([await app.finish(leases[0], RESULT)])
        # Keys are remembered for a day: all of these are.
        ago_h = 24 * contents.ended_days
        copies.append(_Copies(receipt.job_id, contents.finished - 1, spread, 20 + ago_h, 2 + ago_h))
    if contents.parked:
        receipts = [await app.submit(**_fields(BIG, f"big-{number}")) for number in range(BIG_AT_ONCE + 1)]
        # Older than those of the others, so that the big account's jobs are always next when they may run.
        copies.append(_Copies(receipts[-1].job_id, contents.parked - 1, f"'{BIG}'", 2, 1.1, is_parked=True))
    if contents.waiting:
        receipt = await app.submit(**_fields(owner(0, accounts), "waits"))
        copies.append(_Copies(receipt.job_id, contents.waiting - 1, spread, 1, 0, is_ready=True))
    return copies


def _fields(account: str, key: str) -> dict[str, Any]:
    wanted = request(account, key)
    return {
        "tool": wanted.tool,
        "payload": dict(wanted.payload),
        "account": wanted.account,
        "idempotency_key": wanted.idempotency_key,
    }


async def _originals(database: Database, job_id: str) -> dict[str, list[str]]:
    """Puts the rows that a job left aside, and says in which tables, with which columns."""
    tables = {}
    for table, columns in (await database.columns()).items():
        key = "id" if table == "jobs" else "job_id"
        if key in columns:
            await database.run(f"DROP TABLE IF EXISTS original_{table}")
            await database.run(f"CREATE TEMP TABLE original_{table} AS SELECT * FROM {table} WHERE {key} = '{job_id}'")
            if await database.value(f"SELECT count(*) FROM original_{table}"):
                tables[table] = columns
    return tables


async def _copy(database: Database, tables: dict[str, list[str]], copies: _Copies, first: int, last: int) -> None:
    step_us = int((copies.from_h - copies.to_h) * HOUR_US) / copies.count
    shift_us = f"CAST(-{copies.from_h} * {HOUR_US} + n * {step_us} AS bigint)"
    created_us = await database.value(database.created_us.format(job=copies.job_id))
    await database.run("BEGIN")
    await database.run(database.fresh)
    await database.run(
        f"""
        INSERT INTO filling
        SELECT n, {database.new_id}, x.account_id, shift_us, a.entries + k, a.balance - {COST} * k
        FROM (
            SELECT n, account_id, shift_us, ({created_us} + shift_us) / {MILLISECOND_US} AS ms,
                row_number() OVER (PARTITION BY account_id ORDER BY n) AS k
            FROM (
                SELECT n, {copies.account} AS account_id, {shift_us} AS shift_us
                FROM {database.series.format(first=first, last=last - 1)}
            ) AS w
        ) AS x JOIN accounts a ON a.id = x.account_id
        ORDER BY n
        """
    )
    for table, columns in tables.items():
        values = ", ".join(_value(database, table, column) for column in columns)
        await database.run(
            f"INSERT INTO {table} ({', '.join(columns)}) "
            f"SELECT {values} FROM filling f CROSS JOIN original_{table} t ORDER BY f.n"
        )
    await database.run(
        f"""
        UPDATE accounts SET
            submitted = submitted + jobs, entries = entries + jobs, balance = balance - {COST} * jobs,
            active = active + jobs * {int(copies.is_ready or copies.is_parked)},
            admitted = admitted + jobs * {int(copies.is_ready)}, parked = parked + jobs * {int(copies.is_parked)}
        FROM (SELECT account_id, count(*) AS jobs FROM filling GROUP BY account_id) AS f WHERE f.account_id = id
        """
    )
    await database.run("COMMIT")


def _value(database: Database, table: str, column: str) -> str:
    """What a copy has in a column: its own, or what the job had."""
    if column == "job_id" or (table, column) == ("jobs", "id"):
        return "f.id"
    if column in ("account_id", "balance_after"):
        return f"f.{column}"
    if (table, column) == ("entries", "number"):
        return "f.entry"
    if (table, column) == ("keys", "key"):
        return "t.key || '-' || f.n"
    if column == "rank":
        return "t.rank + f.shift_us"
    if column == "at" or column.endswith("_at"):
        return database.later(column)
    return f"t.{column}"


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Database]:
    if url.startswith("postgresql:"):
        # The texts are for both databases, so the path says where the tables are.
        settings = {"work_mem": "512MB", "maintenance_work_mem": "1GB", "temp_buffers": "256MB", "search_path": "ficha"}
        connection = await asyncpg.connect(url, command_timeout=600, server_settings=settings)
        try:
            yield _Postgres(connection)
        finally:
            await connection.close()
        return
    file = apsw.Connection(url.removeprefix("sqlite:///"))
    try:
        # Nothing is lost that could not be made again, and the engine returns to its own settings when it opens it.
        for name, value in {"journal_mode": "OFF", "synchronous": "OFF", "cache_size": -2_000_000}.items():
            file.pragma(name, value)
        yield _Sqlite(file)
    finally:
        file.close()


class _Postgres:
    fresh = """
        DROP TABLE IF EXISTS filling;
        CREATE TEMP TABLE filling (
            n bigint, id uuid, account_id text, shift_us bigint, entry bigint, balance_after bigint
        )
    """
    series = "generate_series({first}, {last}) AS s (n)"
    new_id = """
        (
            lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8'
            || substr(md5(x.account_id || n), 1, 15)
        )::uuid
    """
    created_us = "SELECT (extract(epoch FROM created_at) * 1000000)::bigint FROM jobs WHERE id = '{job}'"

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def run(self, sql: str) -> None:
        await self._connection.execute(sql)

    async def value(self, sql: str) -> Any:
        return await self._connection.fetchval(sql)

    async def columns(self) -> dict[str, list[str]]:
        rows = await self._connection.fetch(
            """
            SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
            FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
            WHERE table_schema = current_schema AND table_type = 'BASE TABLE' AND is_identity = 'NO'
            GROUP BY table_name
            """
        )
        return {table: columns for table, columns in rows}

    async def indexes(self) -> dict[str, str]:
        rows = await self._connection.fetch(
            """
            SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_class c
            WHERE c.relkind = 'i' AND c.relnamespace = current_schema::regnamespace
                AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = c.oid)
            """
        )
        return {name: definition for name, definition in rows}

    def later(self, column: str) -> str:
        return f"t.{column} + f.shift_us * interval '1 microsecond'"


class _Sqlite:
    fresh = """
        DROP TABLE IF EXISTS temp.filling;
        CREATE TEMP TABLE filling (
            n INTEGER PRIMARY KEY, id TEXT, account_id TEXT, shift_us INTEGER, entry INTEGER, balance_after INTEGER
        )
    """
    series = "(WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last}) SELECT n FROM s)"
    new_id = """
        format(
            '%08x-%04x-7%03x-8%03x-%012x',
            ms >> 16, ms & 65535, n % 4096, abs(random()) % 4096, abs(random()) % 281474976710656
        )
    """
    created_us = "SELECT created_at FROM jobs WHERE id = '{job}'"

    def __init__(self, file: apsw.Connection) -> None:
        self._file = file

    async def run(self, sql: str) -> None:
        for _ in self._file.execute(sql):
            pass

    async def value(self, sql: str) -> Any:
        return self._file.execute(sql).get

    async def columns(self) -> dict[str, list[str]]:
        rows = self._file.execute(
            """
            SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
            WHERE m.type = 'table' ORDER BY m.name, c.cid
            """
        )
        found: dict[str, list[str]] = {}
        for table, column in rows:
            found.setdefault(table, []).append(column)
        return found

    async def indexes(self) -> dict[str, str]:
        rows = self._file.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        return {name: definition for name, definition in rows}

    def later(self, column: str) -> str:
        return f"t.{column} + f.shift_us"
