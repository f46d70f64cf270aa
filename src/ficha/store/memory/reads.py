"""Answers the queries of the read side by walking the state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ...core.dataset import State
from ...core.quota import state_of
from ...core.records import (
    Account,
    ApiKey,
    Entry,
    Event,
    Key,
    Reservation,
)
from ...core.snapshot import Snapshot
from .. import base as q
from .brake_reads import BRAKE_READS
from .bulk_reads import BULK_READS
from .figure_reads import FIGURE_READS
from .file_reads import FILE_READS
from .hook_reads import HOOK_READS
from .job_reads import JOB_READS
from .operator_reads import OPERATOR_READS
from .provider_reads import PROVIDER_READS
from .queue_reads import QUEUE_READS
from .retention_reads import RETENTION_READS
from .schedule_reads import SCHEDULE_READS
from .search_reads import SEARCH_READS
from .session_reads import SESSION_READS
from .state_reads import STATE_READS
from .webhook_reads import WEBHOOK_READS

if TYPE_CHECKING:
    from .store import MemoryStore

T = TypeVar("T")


def answer(store: MemoryStore, query: q.Query[T]) -> T:
    result: T = _ANSWERS[type(query)](store, query)
    return result


def _get_account(store: MemoryStore, query: q.GetAccount) -> Account | None:
    return store.state.accounts.get(query.account_id)


def _list_accounts(store: MemoryStore, query: q.ListAccounts) -> list[Account]:
    named = (key for key in store.state.accounts if key.startswith(query.prefix or ""))
    ids = sorted(key for key in named if query.after is None or key > query.after)
    return [store.state.accounts[key] for key in ids[: query.limit]]


def _list_entries(store: MemoryStore, query: q.ListEntries) -> list[Entry]:
    mine = [
        entry
        for entry in reversed(store.state.entries)
        if entry.account_id == query.account_id and (query.before_number is None or entry.number < query.before_number)
    ]
    return mine[: query.limit]


def _list_accepted(store: MemoryStore, query: q.ListAccepted) -> list[Event]:
    kept = (event for events in store.history.values() for event in events)
    found = [event for event in kept if event.data is not None and event.data.get("ref") == query.ref]
    return sorted(found, key=lambda event: (event.at, event.job_id), reverse=True)


def _list_commits(store: MemoryStore, query: q.ListCommits) -> list[q.Commit]:
    found = (
        commit
        for commit in store.commit_rows[bisect_right(store.commit_rows, query.after, key=_number) :]
        if query.telling_of is None or any(event.account_id == query.telling_of for event in commit.events)
    )
    return list(islice(found, query.limit))


_number = attrgetter("number")


def _get_first_searched(store: MemoryStore, query: q.GetFirstSearched) -> int:
    first = searched = 0
    for commit in reversed(store.commit_rows):
        if searched >= q.EVENTS_SEARCHED:
            break
        first = commit.number
        searched += len(commit.events)
    return first


def _get_horizon(store: MemoryStore, query: q.GetHorizon) -> q.Horizon:
    return q.Horizon(store.commit_rows[-1].number if store.commit_rows else 0)


def _list_reservations(store: MemoryStore, query: q.ListReservations) -> list[Reservation]:
    found = [
        held
        for held in store.state.reservations.values()
        if query.account_id in (None, held.account_id) and (query.before is None or held.id < query.before)
        if query.state in (None, state_of(held, query.at))
    ]
    return sorted(found, key=lambda held: held.id, reverse=True)[: query.limit]


def _list_keys(store: MemoryStore, query: q.ListKeys) -> list[Key]:
    found = [
        key
        for key in store.state.keys.values()
        if query.account_id in (None, key.account_id)
        and query.key in (None, key.key)
        and (query.after is None or (key.account_id, key.key, key.scope) > query.after)
    ]
    return sorted(found, key=lambda key: (key.account_id, key.key, key.scope))[: query.limit]


def _get_api_key(store: MemoryStore, query: q.GetApiKey) -> q.ApiKeyList:
    found = [key for key in store.state.api_keys.values() if query.key_id == key.id or query.digest == key.digest]
    return q.ApiKeyList(store.clock(), [_api_key_row(store.state, key) for key in found])


def _list_api_keys(store: MemoryStore, query: q.ListApiKeys) -> q.ApiKeyList:
    ids = sorted((key for key in store.state.api_keys if query.before is None or key < query.before), reverse=True)
    found = [_api_key_row(store.state, store.state.api_keys[key]) for key in ids[: query.limit]]
    return q.ApiKeyList(store.clock(), found)


def _get_revoked_api_keys(store: MemoryStore, query: q.GetRevokedApiKeys) -> list[str]:
    found = (store.state.api_keys.get(key_id) for key_id in set(query.ids))
    return [key.id for key in found if key is not None and key.revoked_at is not None]


def _api_key_row(state: State, key: ApiKey) -> q.ApiKeyRow:
    use = state.api_key_uses.get(key.id)
    return q.ApiKeyRow(key, None if use is None else use.at)


def _get_snapshot(store: MemoryStore, query: q.GetSnapshot) -> Snapshot:
    return store.snapshot(query.needs)


_ANSWERS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.GetAccount: _get_account,
    q.ListAccounts: _list_accounts,
    q.ListEntries: _list_entries,
    q.ListAccepted: _list_accepted,
    q.ListCommits: _list_commits,
    q.GetFirstSearched: _get_first_searched,
    q.GetHorizon: _get_horizon,
    q.ListReservations: _list_reservations,
    q.ListKeys: _list_keys,
    q.GetApiKey: _get_api_key,
    q.ListApiKeys: _list_api_keys,
    q.GetRevokedApiKeys: _get_revoked_api_keys,
    **(JOB_READS | QUEUE_READS | FILE_READS | PROVIDER_READS | STATE_READS | WEBHOOK_READS | SESSION_READS),
    **(OPERATOR_READS | SEARCH_READS | FIGURE_READS | BULK_READS | SCHEDULE_READS | RETENTION_READS | HOOK_READS),
    **BRAKE_READS,
    q.GetSnapshot: _get_snapshot,
}
