"""The state of some accounts, or of all, as one value: for `ficha verify`, exports and tests."""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

from collections import defaultdict
from typing import Final

from ...core.dataset import State
from ...core.history import history
from ...core.records import (
    Account,
    ApiKey,
    ApiKeyUse,
    Batch,
    Content,
    Entry,
    Event,
    Key,
    Leader,
    Pool,
    Reservation,
    Step,
    Tally,
)
from ..base import GetState
from . import rows
from .connections import Connection
from .tables import (
    ACCOUNTS,
    API_KEY_USES,
    API_KEYS,
    BATCHES,
    ENTRIES,
    EVENTS,
    KEYS,
    LEADERS,
    POOLS,
    RESERVATIONS,
    STEPS,
    WORKERS,
)

WHOLE_ACCOUNTS: Final = f"""
SELECT {ACCOUNTS.selected("a")} FROM accounts a WHERE $1::text IS NULL OR a.id > $1 ORDER BY a.id LIMIT $2
"""
WHOLE_JOBS: Final = f"""
SELECT {rows.ANY_JOB} FROM jobs j {rows.HOT_ROWS} WHERE j.account_id = ANY ($1::text[]) ORDER BY j.id
"""
WHOLE_TEXTS: Final = "SELECT id::text, payload::text, result::text FROM jobs WHERE account_id = ANY ($1::text[])"
WHOLE_STEPS: Final = f"""
SELECT {STEPS.selected("s")} FROM steps s JOIN jobs j ON j.id = s.job_id WHERE j.account_id = ANY ($1::text[])
ORDER BY s.number
"""
WHOLE_KEYS: Final = f"SELECT {KEYS.selected('k')} FROM keys k WHERE k.account_id = ANY ($1::text[])"
WHOLE_RESERVATIONS: Final = f"""
SELECT {RESERVATIONS.selected("v")} FROM reservations v WHERE v.account_id = ANY ($1::text[])
"""
WHOLE_BATCHES: Final = f"SELECT {BATCHES.selected('b')} FROM batches b WHERE b.account_id = ANY ($1::text[])"
WHOLE_POOLS: Final = f"SELECT {POOLS.selected('q')} FROM pools q"
WHOLE_CONTENTS: Final = """
SELECT t.tool, t.content_hash, t.job_id::text, j.result::text FROM contents t JOIN jobs j ON j.id = t.job_id
WHERE j.account_id = ANY ($1::text[])
"""
WHOLE_LEADERS: Final = f"SELECT {LEADERS.selected('e')} FROM leaders e"
WHOLE_WORKERS: Final = f"SELECT {WORKERS.selected('w')} FROM workers w"
WHOLE_TALLIES: Final = """
SELECT worker, kind, sum(runs)::bigint AS runs, sum(busy_us)::bigint AS busy_us FROM worker_counts GROUP BY worker, kind
"""
WHOLE_API_KEYS: Final = f"""
SELECT {API_KEYS.selected("k")} FROM api_keys k WHERE k.account_id IS NULL OR k.account_id = ANY ($1::text[])
"""
WHOLE_API_KEY_USES: Final = f"""
SELECT {API_KEY_USES.selected("u")} FROM api_key_uses u WHERE u.key_id = ANY ($1::uuid[])
"""
WHOLE_ENTRIES: Final = f"""
SELECT {ENTRIES.selected("e")} FROM entries e WHERE e.account_id = ANY ($1::text[]) ORDER BY e.account_id, e.number
"""
WHOLE_EVENTS: Final = f"""
SELECT {EVENTS.selected("v")} FROM events v JOIN jobs j ON j.id = v.job_id WHERE j.account_id = ANY ($1::text[])
ORDER BY v.job_id, v.number
"""


async def state(connection: Connection, query: GetState) -> State:
    """Inside one transaction, so that all of it is of one moment."""
    found = State()
    for row in await connection.fetch(WHOLE_ACCOUNTS, query.after, query.limit):
        found.accounts[row[0]] = Account(*row)
    mine = list(found.accounts)
    for row in await connection.fetch(WHOLE_JOBS, mine):
        found.jobs[row[0]] = rows.job(tuple(row))
    for row in await connection.fetch(WHOLE_KEYS, mine):
        found.keys[row[0], row[1], row[2]] = Key(*row)
    for row in await connection.fetch(WHOLE_RESERVATIONS, mine):
        found.reservations[row[0]] = Reservation(*row)
    for row in await connection.fetch(WHOLE_BATCHES, mine):
        found.batches[row[0]] = Batch(*row)
    for row in await connection.fetch(WHOLE_POOLS):
        found.pools[row[0]] = Pool(*row)
    for row in await connection.fetch(WHOLE_CONTENTS, mine):
        found.contents[row[0], row[1]] = Content(*row)
    for row in await connection.fetch(WHOLE_LEADERS):
        found.leaders[row[0]] = Leader(*row)
    for row in await connection.fetch(WHOLE_WORKERS):
        found.workers[row[0]] = rows.worker(*row)
    for row in await connection.fetch(WHOLE_TALLIES):
        found.tallies[row[0], row[1]] = Tally(*row)
    for row in await connection.fetch(WHOLE_API_KEYS, mine):
        found.api_keys[row[0]] = ApiKey(*row)
    for row in await connection.fetch(WHOLE_API_KEY_USES, list(found.api_keys)):
        found.api_key_uses[row[0]] = ApiKeyUse(*row)
    found.entries = [Entry(*row) for row in await connection.fetch(WHOLE_ENTRIES, mine)]
    if query.texts:
        await _add_texts(connection, found, mine)
    return found


async def _add_texts(connection: Connection, found: State, mine: list[str]) -> None:
    for job_id, payload, result in await connection.fetch(WHOLE_TEXTS, mine):
        found.payloads[job_id] = payload
        if result is not None:
            found.results[job_id] = result
    for row in await connection.fetch(WHOLE_STEPS, mine):
        found.steps[row[0], row[1]] = Step(*row)
    kept = defaultdict[str, list[Event]](list)
    for row in await connection.fetch(WHOLE_EVENTS, mine):
        kept[row[0]].append(rows.event(*row))
    found.events = [event for job in found.jobs.values() for event in history(job, kept.get(job.id, ()))]
