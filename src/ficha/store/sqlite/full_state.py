"""Reads a range of accounts with everything that is theirs, for the check of the invariants and for comparisons."""

from __future__ import annotations

from collections import defaultdict

import apsw

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
    Reservation,
    Step,
    Tally,
    Worker,
)
from ..base import GetState
from . import rows
from .rows import listed

# ruff: noqa: S608 (all that is put into these statements are names from this package)

_MINE = "account_id > :after AND account_id <= :last"

ACCOUNTS = f"SELECT {listed(Account.__struct_fields__)} FROM accounts WHERE id > :after ORDER BY id LIMIT :limit"
JOBS = f"SELECT {rows.JOB_READ} FROM jobs j {rows.JOB_JOINS} WHERE j.{_MINE.replace('AND ', 'AND j.')}"
TEXTS = f"SELECT id, payload, result FROM jobs WHERE {_MINE}"
STEPS = (
    f"SELECT {listed(Step.__struct_fields__, 's.')} FROM steps s CROSS JOIN jobs j ON j.id = s.job_id "
    f"WHERE j.{_MINE.replace('AND ', 'AND j.')} ORDER BY s.rowid"
)
KEYS = f"SELECT {listed(Key.__struct_fields__)} FROM keys WHERE {_MINE}"
RESERVATIONS = f"SELECT {listed(Reservation.__struct_fields__)} FROM reservations WHERE {_MINE}"
BATCHES = f"SELECT {listed(Batch.__struct_fields__)} FROM batches WHERE {_MINE}"
CONTENTS = (
    "SELECT c.tool, c.content_hash, c.job_id, j.result FROM contents c CROSS JOIN jobs j ON j.id = c.job_id "
    f"WHERE j.{_MINE.replace('AND ', 'AND j.')}"
)
ENTRIES = f"SELECT {listed(Entry.__struct_fields__)} FROM entries WHERE {_MINE} ORDER BY account_id, number"
EVENTS = (
    f"SELECT {listed(rows.EVENT_COLUMNS, 'e.')} FROM events e CROSS JOIN jobs j ON j.id = e.job_id "
    f"WHERE j.{_MINE.replace('AND ', 'AND j.')} ORDER BY e.job_id, e.number"
)
POOLS = "SELECT name, slots, resized, paused FROM pools"
LEADERS = "SELECT name, owner, expires_at FROM leaders"
WORKERS = f"SELECT {listed(Worker.__struct_fields__)} FROM workers"
TALLIES = f"SELECT {listed(Tally.__struct_fields__)} FROM worker_counts"
API_KEYS = f"SELECT {listed(ApiKey.__struct_fields__)} FROM api_keys WHERE account_id IS NULL OR ({_MINE})"
API_KEY_USES = "SELECT key_id, at FROM api_key_uses WHERE key_id = ?"


def get_state(db: apsw.Connection, query: GetState, now: int) -> State:
    state = State(
        pools={row[0]: rows.pool_of(row) for row in db.execute(POOLS)},
        leaders={row[0]: Leader(*row) for row in db.execute(LEADERS)},
        workers={row[0]: rows.worker_of(row) for row in db.execute(WORKERS)},
        tallies={(row[0], row[1]): Tally(*row) for row in db.execute(TALLIES)},
    )
    after = query.after or ""
    accounts = [Account(*row) for row in db.execute(ACCOUNTS, {"after": after, "limit": query.limit})]
    mine = {"after": after, "last": accounts[-1].id if accounts else ""}
    state.api_keys = {row[0]: ApiKey(*row) for row in db.execute(API_KEYS, mine)}
    uses = db.executemany(API_KEY_USES, [(key,) for key in state.api_keys])
    state.api_key_uses = {row[0]: ApiKeyUse(*row) for row in uses}
    if not accounts:
        return state
    state.accounts = {account.id: account for account in accounts}
    state.jobs = {row[0]: rows.job_of(row) for row in db.execute(JOBS, mine)}
    keys = [Key(*row) for row in db.execute(KEYS, mine)]
    state.keys = {(key.account_id, key.scope, key.key): key for key in keys}
    state.reservations = {row[0]: Reservation(*row) for row in db.execute(RESERVATIONS, mine)}
    state.batches = {row[0]: Batch(*row) for row in db.execute(BATCHES, mine)}
    state.contents = {(row[0], row[1]): Content(*row) for row in db.execute(CONTENTS, mine)}
    state.entries = [Entry(*row) for row in db.execute(ENTRIES, mine)]
    if query.texts:
        for job_id, payload, result in db.execute(TEXTS, mine):
            state.payloads[job_id] = payload
            if result is not None:
                state.results[job_id] = result
        state.steps = {(row[0], row[1]): Step(*row) for row in db.execute(STEPS, mine)}
        kept = defaultdict[str, list[Event]](list)
        for event in map(rows.event_of, db.execute(EVENTS, mine)):
            kept[event.job_id].append(event)
        state.events = [event for job in state.jobs.values() for event in history(job, kept.get(job.id, ()))]
    return state
