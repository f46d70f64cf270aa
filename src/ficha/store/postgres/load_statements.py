"""The two statements that load what a group needs: which rows each part finds, and how it locks them.

All parts share one list of columns: those of an account or a job, which the driver decodes several times faster than
whole records, and one column of whole records, `rest`, for everything rarer. `load.py` makes the snapshot of them.
"""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Literal

from msgspec import Struct

from ...core.records import Content
from ...core.snapshot import Snapshot
from ...core.split_requests import PARTS_SEARCHED
from ..account_rows import account_rows, row_counts
from ..sql import tables as t
from ..sql.jobs import JOB_WIDTH, job_columns
from ..sql.tables import Row, Table
from .dialect import SQL, array

Take = Callable[[Snapshot, str, Row], None]
"""Puts a record or a payload into the snapshot."""


class LoadPart(Struct, frozen=True, eq=False):
    """Some of the statement's selects.

    types: the types of its parameters' elements (each parameter is an array); the texts name them `{0}`, `{1}`, …
    selects, cte: in these, `{lock}` stands for FOR UPDATE and `{skip}` for FOR UPDATE SKIP LOCKED.
    take: puts rows that are not jobs into the snapshot.
    lists: the field of the snapshot that lists the jobs found, if any.
    """

    types: tuple[str, ...]
    selects: tuple[str, ...]
    cte: str
    take: Take | None
    lists: Literal["ready", "parked"] | None


def load_part(
    types: str,
    *selects: str,
    cte: str = "",
    take: Take | None = None,
    lists: Literal["ready", "parked"] | None = None,
) -> LoadPart:
    return LoadPart(tuple(types.split()), selects, cte, take, lists)


class LoadStatement:
    """The parts that a group needs, and their values. Without `locks`, rows are only read."""

    def __init__(self, *, locks: bool = True) -> None:
        self.locks = locks
        self.parts: list[LoadPart] = []
        self.values: list[Any] = []

    def add(self, part: LoadPart, *values: Any) -> None:
        """Adds a part, unless all its values are empty."""
        if any(values) or not part.types:
            self.parts.append(part)
            self.values += values

    def text(self) -> str:
        return statement(tuple(self.parts), locks=self.locks)


@lru_cache(maxsize=1024)
def statement(parts: tuple[LoadPart, ...], *, locks: bool = True) -> str:
    """The text for these parts. The same parts give the same text, so a connection has it prepared.

    The selects of UNION ALL run one after the other, in this order, and so take the locks in this order.
    """
    words = {"lock": "FOR UPDATE", "skip": "FOR UPDATE SKIP LOCKED"} if locks else {"lock": "", "skip": ""}
    ctes, selects = [], []
    first = 1
    for number, part in enumerate(parts):
        parameters = [array(n, kind) for n, kind in enumerate(part.types, first)]
        first += len(parameters)
        selects += [select.format(*parameters, part=number, **words) for select in part.selects]
        if part.cte:
            ctes.append(part.cte.format(*parameters, **words))
    return (f"WITH {', '.join(ctes)} " if ctes else "") + " UNION ALL ".join(selects)


def looked_up(table: str, alias: str, condition: str, *, if_any: bool = False) -> str:
    """A join of a table's rows by their key. `OFFSET 0` keeps the planner from scanning the whole table, as it would
    with statistics that say that the table is empty."""
    found = f"LATERAL (SELECT * FROM ficha.{table} k WHERE {condition} OFFSET 0) AS {alias}"
    return f"LEFT JOIN {found} ON true" if if_any else f"CROSS JOIN {found}"


# Stage 1: locks. Columns: the kind of row, those of an account, names, rest.

NO_ACCOUNT: Final = ", ".join(["NULL"] * len(t.ACCOUNTS.columns))


def _names(what: str, found: str) -> str:
    return f"SELECT '{what}', {NO_ACCOUNT}, ARRAY({found}), NULL::record"


LOCK_ACCOUNTS: Final = load_part(
    "text uuid uuid",
    # The first select gives the columns their types.
    f"""(
        SELECT 'account', {SQL.selected(t.ACCOUNTS, "a")}, NULL::text[], NULL::record
        FROM (
            SELECT * FROM ficha.accounts
            WHERE id = ANY (
                {{0}}
                || ARRAY(SELECT account_id FROM owners)
                || ARRAY(SELECT account_id FROM ficha.reservations WHERE id = ANY ({{2}}))
            )
            ORDER BY id {{lock}}
        ) a
    )""",
    _names("owners", "SELECT account_id FROM owners"),
    cte="owners AS MATERIALIZED (SELECT account_id FROM ficha.jobs WHERE id = ANY ({1}))",
)
LOCK_JOBS: Final = load_part(
    "uuid",
    _names("ready", "SELECT job_id::text FROM ficha.ready WHERE job_id = ANY ({0}) ORDER BY job_id {lock}"),
    _names("leases", "SELECT job_id::text FROM ficha.leases WHERE job_id = ANY ({0}) ORDER BY job_id {lock}"),
)
LOCK_POOLS: Final = load_part(
    "text text",
    _names(
        "pools",
        "SELECT name FROM ficha.pools WHERE name = ANY ({0}) "
        "OR name = ANY ({1}) AND coalesce(resized, slots) IS NOT NULL ORDER BY name {lock}",
    ),
)
# One lock for all changes of API keys, which are rare: no single row says how many keys of a name there are.
LOCK_API_KEYS: Final = load_part(
    "", _names("api keys", "SELECT 'held' FROM pg_advisory_xact_lock(hashtext('ficha api keys'))")
)
LOCKS: Final = (LOCK_ACCOUNTS, LOCK_JOBS, LOCK_POOLS, LOCK_API_KEYS)
"""Every part of stage 1, in the order of the locks; those of keyed records come before the last."""


# Stage 2: the rest. Columns: those of a job, the part's number, payload, rest. Selects of jobs come first.

_NO_JOB: Final = ", ".join(["NULL"] * JOB_WIDTH)
PART: Final = JOB_WIDTH
PAYLOAD: Final = JOB_WIDTH + 1
REST: Final = JOB_WIDTH + 2


def _job(job_id: str) -> str:
    return looked_up("jobs", "j", f"k.id = {job_id}")


def _beside(table: str, alias: str, job_id: str) -> str:
    return looked_up(table, alias, f"k.job_id = {job_id}", if_any=True)


_HOT_ROWS: Final = " ".join(_beside(table, table[0], "j.id") for table in ("leases", "ready", "parked", "checkpoints"))
_ANY_JOB: Final = f"SELECT {job_columns(SQL)}, {{part}}, NULL::text, NULL::record FROM"


def other(rest: str, source: str, payload: str = "NULL::text", more: str = "") -> str:
    """A select of anything but jobs."""
    return f"SELECT {_NO_JOB}, {{part}}, {payload}, ROW({rest}){more} FROM {source}"


def _take_payload(snapshot: Snapshot, payload: str, rest: Row) -> None:
    snapshot.payloads[rest[0]] = payload


def _into(field: str, record: Callable[[Row], Any], width: int = 1) -> Take:
    """Puts the record under its key: its first column, or its first `width` columns."""

    def take(snapshot: Snapshot, payload: str, rest: Row) -> None:
        getattr(snapshot, field)[rest[0] if width == 1 else tuple(rest[:width])] = record(rest)

    return take


def _onto(field: str, record: Callable[[Row], Any]) -> Take:
    """Appends the record to the list of its owner, which is its second column."""

    def take(snapshot: Snapshot, payload: str, rest: Row) -> None:
        getattr(snapshot, field)[rest[1]].append(record(rest))

    return take


def _named(table: Table, kind: str) -> LoadPart:
    """Records by their key, for the field of the snapshot that has the table's name."""
    return _found(table, kind, f"k.{table.key[0]} = ANY ({{0}})", _into(table.name, table.record))


def _found(table: Table, kind: str, condition: str, take: Take) -> LoadPart:
    return load_part(kind, other(SQL.selected(table, "k"), f"ficha.{table.name} k WHERE {condition}"), take=take)


JOBS: Final = load_part("uuid", f"{_ANY_JOB} unnest({{0}}) AS w (id) {_job('w.id')} {_HOT_ROWS}")
KEYS_AND_JOBS: Final = load_part(
    "text text text",
    f"{_ANY_JOB} keyed {_job('keyed.job_id')} {_HOT_ROWS}",
    other(SQL.selected(t.KEYS, "k"), "keyed k"),
    cte=f"""
        keyed AS MATERIALIZED (
            SELECT k.* FROM unnest({{0}}, {{1}}, {{2}}) AS w (account_id, scope, key)
            {looked_up("keys", "k", "k.account_id = w.account_id AND k.scope = w.scope AND k.key = w.key")}
        )
    """,
    take=_into("keys", t.KEYS.record, 3),
)


def ready_jobs(more: str = "") -> str:
    return f"""(
        SELECT {job_columns(SQL, "r")}, {{part}}, j.payload::text, NULL::record{more}
        FROM candidates r {_job("r.job_id")} {_beside("checkpoints", "c", "r.job_id")}
        ORDER BY r.pool, r.rank, r.job_id
    )"""


def candidates(more: str = "", lock: str = "") -> str:
    """The best ready jobs of each pool in {{0}}, at most {{1}}, from the ranges of ranks in {{2}}, {{3}} and {{4}},
    with at most {{5}} lost runs.
    MATERIALIZED keeps the planner from running the scan, and so the locking, more than once per pool."""
    return f"""
        candidates AS MATERIALIZED (
            SELECT r.* FROM unnest({{0}}, {{1}}, {{5}}) AS w (pool, most, losses)
            CROSS JOIN LATERAL (
                SELECT found.* FROM unnest({{2}}, {{3}}, {{4}}) AS s (pool, first, beyond)
                CROSS JOIN LATERAL (
                    SELECT ready.*{more} FROM ficha.ready
                    WHERE ready.pool = w.pool AND rank >= s.first AND rank < s.beyond AND recoveries <= w.losses
                    ORDER BY rank, job_id LIMIT w.most {lock}
                ) found
                WHERE s.pool = w.pool LIMIT w.most
            ) r
        )
    """


CANDIDATE_TYPES: Final = "text bigint text bigint bigint bigint"
CANDIDATES: Final = load_part(
    f"{CANDIDATE_TYPES} text",
    ready_jobs(),
    other(
        "q.name, (SELECT count(*) FROM ficha.leases WHERE leases.pool = q.name)",
        "ficha.pools q WHERE q.name = ANY ({0}) AND (coalesce(q.resized, q.slots) IS NOT NULL OR q.name = ANY ({6}))",
    ),
    cte=candidates(lock="{skip}"),
    take=_into("occupied", itemgetter(1)),
    lists="ready",
)


def _parked(payload: str) -> LoadPart:
    return load_part(
        "text bigint",
        f"""(
            SELECT {job_columns(SQL, "p")}, {{part}}, {payload}, NULL::record
            FROM unnest({{0}}, {{1}}) AS w (account_id, most)
            CROSS JOIN LATERAL (
                SELECT * FROM ficha.parked WHERE parked.account_id = w.account_id AND due_at IS NULL
                ORDER BY rank, job_id LIMIT w.most
            ) p
            {_job("p.job_id")} {_beside("checkpoints", "c", "p.job_id")}
            ORDER BY p.account_id, p.rank, p.job_id
        )""",
        lists="parked",
    )


PARKED_JOBS: Final = _parked("NULL::text")
PARKED_WITH_PAYLOADS: Final = _parked("j.payload::text")
"""For a group that also claims, as it may claim the jobs that it promotes."""
PAYLOADS: Final = load_part(
    "uuid", other("id::text", "ficha.jobs WHERE id = ANY ({0})", "payload::text"), take=_take_payload
)
STEPS: Final = load_part(
    "uuid text",
    other(
        "s.job_id::text, s.name, s.result::text",
        "unnest({0}, {1}) AS w (job_id, name) " + looked_up("steps", "s", "k.job_id = w.job_id AND k.name = w.name"),
    ),
    take=_into("steps", itemgetter(2), 2),
)
take_content: Final = _into("contents", lambda rest: Content(*rest), 2)
CONTENTS: Final = load_part(
    "text text",
    other(
        "t.tool, t.content_hash, t.job_id::text, j.result::text",
        "unnest({0}, {1}) AS w (tool, content_hash) "
        f"{looked_up('contents', 't', 'k.tool = w.tool AND k.content_hash = w.content_hash')} {_job('t.job_id')}",
    ),
    take=take_content,
)
RESERVATIONS: Final = _named(t.RESERVATIONS, "uuid")
POOLS: Final = _named(t.POOLS, "text")
BATCHES: Final = _named(t.BATCHES, "uuid")
API_KEYS: Final = _named(t.API_KEYS, "uuid")
RESERVATIONS_ACTIVE: Final = _found(
    t.RESERVATIONS,
    "text",
    "k.account_id = ANY ({0}) AND k.state = 'active'",
    _onto("reservations_of", t.RESERVATIONS.record),
)
API_KEYS_OF: Final = _found(
    t.API_KEYS, "text", "k.name = ANY ({0}) AND k.revoked_at IS NULL", _onto("api_keys_of", t.API_KEYS.record)
)
HOOKS_OF: Final = _found(t.HOOKS, "uuid", "k.job_id = ANY ({0})", _onto("hooks_of", t.HOOKS.record))
ROWS_OF: Final = load_part(
    "text", other(row_counts("w.id"), "unnest({0}) AS w (id)"), take=_into("rows_of", account_rows)
)
PARTS_OF: Final = load_part(
    "text",
    other(
        "w.id, k.part_of::text, count(*)",
        "unnest({0}) AS w (id) CROSS JOIN LATERAL (SELECT part_of, finished_at FROM ficha.jobs "
        f"WHERE account_id = w.id AND part_of IS NOT NULL ORDER BY id DESC LIMIT {PARTS_SEARCHED}) AS k "
        "WHERE k.finished_at IS NULL GROUP BY w.id, k.part_of",
    ),
    take=lambda snapshot, _, rest: snapshot.parts_of[rest[0]].update({rest[1]: rest[2]}),
)
NOW: Final = load_part("", f"SELECT {_NO_JOB}, {{part}}, NULL::text, ROW({SQL.clock})")
"""Always the last part."""

READS: Final = (
    *(JOBS, KEYS_AND_JOBS, CANDIDATES, PARKED_JOBS, PARKED_WITH_PAYLOADS, PAYLOADS, STEPS, RESERVATIONS),
    *(RESERVATIONS_ACTIVE, POOLS, CONTENTS, BATCHES, API_KEYS, API_KEYS_OF, HOOKS_OF, ROWS_OF, PARTS_OF, NOW),
)
"""Every part of stage 2, in the statement's order."""
