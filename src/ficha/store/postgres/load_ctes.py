"""The parts of the two statements that load a batch: which rows each finds, under which locks.

Parts of very different rows share one list of typed columns, because the driver decodes those several times faster
than whole records: the columns of an account or a job for what comes in numbers, and one column of whole records,
`rest`, for everything else. What becomes of the rows is for `load.py`.
"""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from . import rows
from .sql_types import instant, nulls
from .tables import ACCOUNTS, API_KEYS, BATCHES, KEYS, LEADERS, POOLS, RESERVATIONS

SKIPPING: Final = " FOR UPDATE SKIP LOCKED"


class LoadPart(Struct, frozen=True, eq=False):
    """Some selects of the list; `{0}`, `{1}`, … in the texts stand for the parameters, of which there are `width`."""

    width: int
    selects: tuple[str, ...]
    cte: str = ""


class Ask:
    """The parts that a batch has a need for, and the values for them; without `locks`, only to look."""

    def __init__(self, *, locks: bool = True) -> None:
        self.locks = locks
        self.parts: list[LoadPart] = []
        self.values: list[Any] = []

    def add(self, part: LoadPart, *values: Any) -> None:
        """Adds a part, unless all it would ask for is nothing."""
        if any(values) or not part.width:
            self.parts.append(part)
            self.values += values

    def text(self) -> str:
        text = statement(tuple(self.parts))
        return text if self.locks else unlocked(text)


@lru_cache(maxsize=1024)
def statement(parts: tuple[LoadPart, ...]) -> str:
    """The text for these parts. The same parts give the same text, which a connection then has prepared.

    The selects of UNION ALL run one after the other, in this order; that is what makes the order of the locks.
    """
    ctes, selects = [], []
    first = 1
    for part in parts:
        parameters = [f"${n}" for n in range(first, first + part.width)]
        first += part.width
        selects += [select.format(*parameters) for select in part.selects]
        if part.cte:
            ctes.append(part.cte.format(*parameters))
    return (f"WITH {', '.join(ctes)} " if ctes else "") + " UNION ALL ".join(selects)


@lru_cache(maxsize=1024)
def unlocked(text: str) -> str:
    """The same rows, without taking hold of them."""
    return text.replace(SKIPPING, "").replace(" FOR UPDATE", "")


# Stage 1. Columns: part, those of an account, names, rest.

_NO_ACCOUNT: Final = nulls(len(ACCOUNTS.columns))

LOCK_ACCOUNTS: Final = LoadPart(
    3,
    (
        # The first select gives the columns their types.
        f"""(
            SELECT 'account' AS part, {ACCOUNTS.selected("a")}, NULL::text[] AS names, NULL::record AS rest
            FROM (
                SELECT * FROM accounts
                WHERE id = ANY (
                    {{0}}::text[]
                    || ARRAY(SELECT account_id FROM owners)
                    || ARRAY(SELECT account_id FROM reservations WHERE id = ANY ({{2}}::uuid[]))
                )
                ORDER BY id FOR UPDATE
            ) a
        )""",
        f"SELECT 'owners', {_NO_ACCOUNT}, ARRAY(SELECT account_id FROM owners), NULL::record",
    ),
    cte="owners AS MATERIALIZED (SELECT account_id FROM jobs WHERE id = ANY ({1}::uuid[]))",
)
LOCK_JOBS: Final = LoadPart(
    1,
    tuple(
        f"SELECT '{table}', {_NO_ACCOUNT}, "
        f"ARRAY(SELECT job_id::text FROM {table} WHERE job_id = ANY ({{0}}::uuid[]) ORDER BY job_id FOR UPDATE), "
        "NULL::record"
        for table in ("ready", "leases")
    ),
)
LOCK_POOLS: Final = LoadPart(
    2,
    (
        f"""
        SELECT 'pools', {_NO_ACCOUNT}, ARRAY(
            SELECT name FROM pools
            WHERE name = ANY ({{0}}::text[]) OR name = ANY ({{1}}::text[]) AND coalesce(resized, slots) IS NOT NULL
            ORDER BY name FOR UPDATE
        ), NULL::record
        """,
    ),
)
LOCK_LEADERS: Final = LoadPart(
    1,
    (
        f"""
        SELECT 'leader', {_NO_ACCOUNT}, NULL::text[], ROW({LEADERS.selected("e")})
        FROM (SELECT * FROM leaders WHERE name = ANY ({{0}}::text[]) ORDER BY name FOR UPDATE) e
        """,
    ),
)

# One for all changes of API keys, which are rare: how many keys of a name there are is not to be seen in any one row.
LOCK_API_KEYS: Final = LoadPart(
    0,
    (
        f"SELECT 'api keys', {_NO_ACCOUNT}, "
        "ARRAY(SELECT 'held' FROM pg_advisory_xact_lock(hashtext('ficha api keys'))), NULL::record",
    ),
)

LOCKS: Final = (LOCK_ACCOUNTS, LOCK_JOBS, LOCK_POOLS, LOCK_LEADERS, LOCK_API_KEYS)
"""Every part of stage 1, in the order of the locks."""


# Stage 2. Columns: those of a job, part, payload, rest. The selects that have jobs come first.

_NO_JOB: Final = nulls(rows.JOB_WIDTH)
PART: Final = rows.JOB_WIDTH
PAYLOAD: Final = rows.JOB_WIDTH + 1
REST: Final = rows.JOB_WIDTH + 2
VERSION: Final = rows.JOB_WIDTH + 3
"""Where rows are seen without locks."""


def _job(job_id: str) -> str:
    """Looked up, and never found by reading all jobs (see `parts.py`)."""
    return f"CROSS JOIN LATERAL (SELECT * FROM jobs k WHERE k.id = {job_id} OFFSET 0) AS j"


def _other(part: str, rest: str, source: str, payload: str = "NULL::text", beside: str = "") -> str:
    """A select of anything but jobs."""
    return f"SELECT {_NO_JOB}, '{part}', {payload}, ROW({rest}){beside} FROM {source}"


JOBS: Final = LoadPart(
    1,
    (
        f"""
        SELECT {rows.ANY_JOB}, 'job', NULL::text, NULL::record
        FROM unnest({{0}}::uuid[]) AS w (id) {_job("w.id")} {rows.OWN_HOT_ROWS}
        """,
    ),
)
KEYS_AND_JOBS: Final = LoadPart(
    3,
    (
        f"""
        SELECT {rows.ANY_JOB}, 'job', NULL::text, NULL::record
        FROM keyed {_job("keyed.job_id")} {rows.OWN_HOT_ROWS}
        """,
        _other("key", KEYS.selected("k"), "keyed k"),
    ),
    cte="""
        keyed AS MATERIALIZED (
            SELECT k.* FROM unnest({0}::text[], {1}::text[], {2}::text[]) AS w (account_id, scope, key)
            CROSS JOIN LATERAL (
                SELECT * FROM keys k
                WHERE k.account_id = w.account_id AND k.scope = w.scope AND k.key = w.key OFFSET 0
            ) AS k
        )
    """,
)


def _ready(beside: str = "") -> str:
    return f"""(
        SELECT {rows.READY_JOB}, 'ready', j.payload::text, NULL::record{beside}
        FROM candidates r {_job("r.job_id")} {rows.beside("checkpoints", "c", "r.job_id")}
        ORDER BY r.pool, r.rank, r.job_id
    )"""


def _candidates(stretches: str, beside: str = "", lock: str = "") -> str:
    """The best of each pool in {0}, as many as {1} says. The fence keeps the planner from running the scan, and so the
    locking, more than once per pool."""
    return f"""
        candidates AS MATERIALIZED (
            SELECT r.* FROM unnest({{0}}::text[], {{1}}::bigint[]) AS w (pool, most)
            CROSS JOIN LATERAL (
                SELECT found.* FROM unnest({stretches}) AS s (pool, first, beyond)
                CROSS JOIN LATERAL (
                    SELECT ready.*{beside} FROM ready WHERE ready.pool = w.pool AND rank >= s.first AND rank < s.beyond
                    ORDER BY rank, job_id LIMIT w.most{lock}
                ) found
                WHERE s.pool = w.pool LIMIT w.most
            ) r
        )
    """


CANDIDATES: Final = LoadPart(
    6,
    (
        _ready(),
        _other(
            "occupied",
            "q.name, (SELECT count(*) FROM leases WHERE leases.pool = q.name)",
            "pools q WHERE q.name = ANY ({0}::text[]) "
            "AND (coalesce(q.resized, q.slots) IS NOT NULL OR q.name = ANY ({2}::text[]))",
        ),
    ),
    cte=_candidates("{3}::text[], {4}::bigint[], {5}::bigint[]", lock=SKIPPING),
)


def _parked(payload: str) -> LoadPart:
    return LoadPart(
        2,
        (
            f"""(
                SELECT {rows.PARKED_JOB}, 'parked', {payload}, NULL::record
                FROM unnest({{0}}::text[], {{1}}::bigint[]) AS w (account_id, most)
                CROSS JOIN LATERAL (
                    SELECT * FROM parked WHERE parked.account_id = w.account_id AND due_at IS NULL
                    ORDER BY rank, job_id LIMIT w.most
                ) p
                {_job("p.job_id")} {rows.beside("checkpoints", "c", "p.job_id")}
                ORDER BY p.account_id, p.rank, p.job_id
            )""",
        ),
    )


PARKED_JOBS: Final = _parked("NULL::text")
PARKED_WITH_PAYLOADS: Final = _parked("j.payload::text")
"""For a batch that also claims: it may claim what it promotes."""
PAYLOADS: Final = LoadPart(1, (_other("payload", "id::text", "jobs WHERE id = ANY ({0}::uuid[])", "payload::text"),))
STEPS: Final = LoadPart(
    2,
    (
        _other(
            "step",
            "s.job_id::text, s.name, s.result::text",
            "unnest({0}::uuid[], {1}::text[]) AS w (job_id, name) "
            "CROSS JOIN LATERAL (SELECT * FROM steps k WHERE k.job_id = w.job_id AND k.name = w.name OFFSET 0) AS s",
        ),
    ),
)
RESERVATIONS_NAMED: Final = LoadPart(
    1, (_other("reservation", RESERVATIONS.selected("v"), "reservations v WHERE v.id = ANY ({0}::uuid[])"),)
)
RESERVATIONS_ACTIVE: Final = LoadPart(
    1,
    (
        _other(
            "active",
            RESERVATIONS.selected("v"),
            "reservations v WHERE v.account_id = ANY ({0}::text[]) AND v.state = 'active'",
        ),
    ),
)
POOLS_NAMED: Final = LoadPart(1, (_other("pool", POOLS.selected("q"), "pools q WHERE q.name = ANY ({0}::text[])"),))
CONTENTS: Final = LoadPart(
    2,
    (
        _other(
            "content",
            "t.tool, t.content_hash, t.job_id::text, j.result::text",
            "unnest({0}::text[], {1}::text[]) AS w (tool, content_hash) "
            "CROSS JOIN LATERAL (SELECT * FROM contents k WHERE k.tool = w.tool AND k.content_hash = w.content_hash "
            f"OFFSET 0) AS t {_job('t.job_id')}",
        ),
    ),
)
BATCHES_NAMED: Final = LoadPart(
    1, (_other("batch", BATCHES.selected("b"), "batches b WHERE b.id = ANY ({0}::uuid[])"),)
)
API_KEYS_NAMED: Final = LoadPart(
    2,
    (
        _other("api key", API_KEYS.selected("k"), "api_keys k WHERE k.id = ANY ({0}::uuid[])"),
        _other(
            "api key of", API_KEYS.selected("k"), "api_keys k WHERE k.name = ANY ({1}::text[]) AND k.revoked_at IS NULL"
        ),
    ),
)
NOW: Final = LoadPart(0, (f"SELECT {_NO_JOB}, 'now', NULL::text, ROW({instant('clock_timestamp()')})",))
"""Always the last."""

_READY_VERSION: Final = ", ready.xmin::text AS version"


def _seen(pools: str) -> tuple[str, ...]:
    """What a claim needs, seen without locks: one more column holds the version of each row."""
    return (
        _ready(", r.version"),
        _other("pool", POOLS.selected("q"), f"pools q WHERE q.name = {pools}", beside=", q.xmin::text"),
        f"{NOW.selects[0]}, NULL",
    )


SEEN: Final = LoadPart(
    5,
    _seen("ANY ({0}::text[])"),
    cte=_candidates("{2}::text[], {3}::bigint[], {4}::bigint[]", _READY_VERSION),
)
SEEN_OF_ONE: Final = LoadPart(
    2,
    _seen("{0}::text"),
    cte=f"""
        candidates AS MATERIALIZED (
            SELECT ready.*{_READY_VERSION} FROM ready WHERE pool = {{0}}::text ORDER BY rank, job_id LIMIT {{1}}::bigint
        )
    """,
)
"""The same for the whole list of one pool, which is what most claims ask for."""

READS: Final = (
    JOBS,
    KEYS_AND_JOBS,
    CANDIDATES,
    PARKED_JOBS,
    PARKED_WITH_PAYLOADS,
    PAYLOADS,
    STEPS,
    RESERVATIONS_NAMED,
    RESERVATIONS_ACTIVE,
    POOLS_NAMED,
    CONTENTS,
    BATCHES_NAMED,
    API_KEYS_NAMED,
    NOW,
)
"""Every part of stage 2, in the order in which they are put together."""
