"""The read side's questions that list rows, and the table of who answers which question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from ...core.records import Account, Entry, Key, Reservation, Status, Step
from ...core.snapshot import Snapshot
from ...core.states import FINAL, HOLDS_SLOT
from .. import base as q
from . import aggregate_reads, api_key_reads, commit_reads, full_state, rows
from .load import load
from .row_cache import SqliteRowCache
from .rows import listed

# ruff: noqa: S608 (all that is put into these statements are names from this package)

T = TypeVar("T")

JOBS = (
    f"SELECT {rows.JOB_READ}, j.payload, j.result FROM carray(?) k CROSS JOIN jobs j ON j.id = k.value {rows.JOB_JOINS}"
)
ACCOUNT = f"SELECT {listed(Account.__struct_fields__)} FROM accounts WHERE id = ?"
ACCOUNTS = f"SELECT {listed(Account.__struct_fields__)} FROM accounts WHERE id > ? ORDER BY id LIMIT ?"
ENTRIES = (
    f"SELECT {listed(Entry.__struct_fields__)} FROM entries WHERE account_id = ? AND number < ? "
    "ORDER BY number DESC LIMIT ?"
)
STEPS = f"SELECT {listed(Step.__struct_fields__)} FROM steps WHERE job_id = ? ORDER BY rowid"

_LAST_NUMBER = 2**63 - 1


def answer(db: apsw.Connection, query: q.Query[T], now: int) -> T:
    """Answers in one view: the caller has a transaction open, but for `ONE_STATEMENT`. `now` is the store's time."""
    result: T = _ANSWERS[type(query)](db, query, now)
    return result


def _get_jobs(db: apsw.Connection, query: q.GetJobs, now: int) -> list[q.JobRow]:
    if not query.ids:
        return []
    return list(map(rows.job_row_of, db.execute(JOBS, (apsw.carray(tuple(dict.fromkeys(query.ids))),))))


def _list_jobs(db: apsw.Connection, query: q.ListJobs, now: int) -> list[q.JobRow]:
    values = {
        **{"account_id": query.account_id, "tool": query.tool, "pool": query.pool, "batch_id": query.batch_id},
        **{"session": query.session, "before": query.before, "stuck": query.stuck_before_at, "limit": query.limit},
        **{f"status{number}": status for number, status in enumerate(query.statuses)},
    }
    return list(map(rows.job_row_of, db.execute(job_list(query), values)))


def job_list(query: q.ListJobs) -> str:
    """The statement for a list of jobs.

    Each status has a table that holds its jobs and few others: the statement merges what it finds in those, each walked
    backwards by id, so that it ends after a page however many jobs there are.
    """
    wanted = frozenset(query.statuses)
    if query.stuck_before_at is not None:
        arms = [_arm(query, "leases", _is_one_of("h.status", query, wanted), "h.heartbeat_at < :stuck")]
    elif query.dead or not wanted:
        arms = [_arm(query, "jobs", _is_one_of("coalesce(l.status, j.status)", query, wanted))]
    else:
        arms = [
            *([_arm(query, "ready"), _arm(query, "parked")] if "queued" in wanted else []),
            *([_arm(query, "leases", _is_one_of("h.status", query, wanted))] if wanted & HOLDS_SLOT else []),
            *([_arm(query, "jobs", _is_one_of("j.status", query, wanted & FINAL))] if wanted & FINAL else []),
        ]
    return " UNION ALL ".join(arms) + " ORDER BY 1 DESC LIMIT :limit"


def _arm(query: q.ListJobs, table: str, *conditions: str) -> str:
    source, key, owner = "jobs j", "j.id", "j.account_id"
    if table != "jobs":
        source, key, owner = f"{table} h CROSS JOIN jobs j ON j.id = h.job_id", "h.job_id", "h.account_id"
    where = _all_of(
        (query.account_id, f"{owner} = :account_id"),
        (query.before, f"{key} < :before"),
        (query.tool, "j.tool = :tool"),
        (query.pool, "j.pool = :pool"),
        (query.batch_id, "j.batch_id = :batch_id"),
        (query.session, "j.session = :session"),
        (query.dead or None, "j.dead_at IS NOT NULL"),
        *((True, condition) for condition in conditions),
    )
    # The id is read from the table that is walked, so that SQLite sees that it is in order already.
    columns = rows.JOB_READ.replace("j.id", key, 1)
    return f"SELECT {columns}, j.payload, j.result FROM {source} {rows.JOB_JOINS} WHERE {where}"


def _is_one_of(column: str, query: q.ListJobs, statuses: frozenset[Status]) -> str:
    """Whether a status is among those asked for; anything is, if none was."""
    marks = [f":status{number}" for number, status in enumerate(query.statuses) if status in statuses]
    return f"{column} IN ({', '.join(marks)})" if marks else "TRUE"


def _get_account(db: apsw.Connection, query: q.GetAccount, now: int) -> Account | None:
    row = db.execute(ACCOUNT, (query.account_id,)).fetchone()
    return None if row is None else Account(*row)


def _list_accounts(db: apsw.Connection, query: q.ListAccounts, now: int) -> list[Account]:
    return [Account(*row) for row in db.execute(ACCOUNTS, (query.after or "", query.limit))]


def _list_entries(db: apsw.Connection, query: q.ListEntries, now: int) -> list[Entry]:
    before = _LAST_NUMBER if query.before is None else query.before
    return [Entry(*row) for row in db.execute(ENTRIES, (query.account_id, before, query.limit))]


def _list_steps(db: apsw.Connection, query: q.ListSteps, now: int) -> list[Step]:
    return [Step(*row) for row in db.execute(STEPS, (query.job_id,))]


def _list_reservations(db: apsw.Connection, query: q.ListReservations, now: int) -> list[Reservation]:
    values = {"account_id": query.account_id, "before": query.before, "limit": query.limit}
    return [Reservation(*row) for row in db.execute(reservation_list(query), values)]


def reservation_list(query: q.ListReservations) -> str:
    where = _all_of((query.account_id, "account_id = :account_id"), (query.before, "id < :before"))
    return (
        f"SELECT {listed(Reservation.__struct_fields__)} FROM reservations WHERE {where} ORDER BY id DESC LIMIT :limit"
    )


def _list_keys(db: apsw.Connection, query: q.ListKeys, now: int) -> list[Key]:
    values: dict[str, Any] = {"account_id": query.account_id, "limit": query.limit}
    if query.after is not None:
        values |= zip(("after_account", "after_key", "after_scope"), query.after, strict=True)
    return [Key(*row) for row in db.execute(key_list(query), values)]


def key_list(query: q.ListKeys) -> str:
    where = _all_of(
        (query.account_id, "account_id = :account_id"),
        (query.after, "(account_id, key, scope) > (:after_account, :after_key, :after_scope)"),
    )
    return (
        f"SELECT {listed(Key.__struct_fields__)} FROM keys WHERE {where} ORDER BY account_id, key, scope LIMIT :limit"
    )


def _get_snapshot(db: apsw.Connection, query: q.GetSnapshot, now: int) -> Snapshot:
    return load(db, query.needs, now, SqliteRowCache())


def _all_of(*asked: tuple[object, str]) -> str:
    """The conditions whose value was given, all together."""
    return " AND ".join(condition for value, condition in asked if value is not None) or "TRUE"


ONE_STATEMENT: frozenset[type[q.Query[Any]]] = frozenset(
    (
        *(q.GetJobs, q.ListJobs, q.GetAccount, q.ListAccounts, q.ListEntries, q.ListCommits, q.ListSteps),
        *(q.ListReservations, q.ListKeys, q.GetDue, q.GetHorizon, q.GetApiKey, q.ListApiKeys, q.ListAudit),
    )
)
"""What is asked in one statement, which is one view by itself."""

_ANSWERS: dict[type[q.Query[Any]], Callable[[apsw.Connection, Any, int], Any]] = {
    q.GetJobs: _get_jobs,
    q.ListJobs: _list_jobs,
    q.GetAccount: _get_account,
    q.ListAccounts: _list_accounts,
    q.ListEntries: _list_entries,
    q.GetHistory: commit_reads.get_history,
    q.ListCommits: commit_reads.list_commits,
    q.GetFirstSearched: commit_reads.get_first_searched,
    q.GetHorizon: commit_reads.get_horizon,
    q.ListSteps: _list_steps,
    q.ListReservations: _list_reservations,
    q.ListKeys: _list_keys,
    q.GetBatch: aggregate_reads.get_batch,
    q.ListPools: aggregate_reads.list_pools,
    q.ListWorkers: aggregate_reads.list_workers,
    q.GetWaiting: aggregate_reads.get_waiting,
    q.GetDue: aggregate_reads.get_due,
    q.GetStats: aggregate_reads.get_stats,
    q.GetApiKey: api_key_reads.get_api_key,
    q.ListApiKeys: api_key_reads.list_api_keys,
    q.ListAudit: api_key_reads.list_audit,
    q.GetSnapshot: _get_snapshot,
    q.GetState: full_state.get_state,
}
