"""The memory store's answers about the whole state, account by account."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...core.dataset import State
from ...core.records import (
    Entry,
    Keyed,
)
from .. import base as q
from .job_reads import job_history

if TYPE_CHECKING:
    from .store import MemoryStore


def _get_state(store: MemoryStore, query: q.GetState) -> State:
    state = store.state
    ids = sorted(key for key in state.accounts if query.after is None or key > query.after)[: query.limit]
    mine = set(ids)
    entries: dict[str, list[Entry]] = defaultdict(list)
    for entry in state.entries:
        entries[entry.account_id].append(entry)
    jobs = _of(mine, state.jobs.items())
    api_keys = {key.id: key for key in state.api_keys.values() if key.account_id is None or key.account_id in mine}
    return State(
        accounts={key: state.accounts[key] for key in ids},
        jobs=jobs,
        payloads={key: state.payloads[key] for key in jobs} if query.texts else {},
        results={key: state.results[key] for key in jobs if key in state.results} if query.texts else {},
        steps={key: step for key, step in state.steps.items() if query.texts and key[0] in jobs},
        keys=_of(mine, state.keys.items()),
        reservations=_of(mine, state.reservations.items()),
        batches=_of(mine, state.batches.items()),
        pools=dict(state.pools),
        contents={key: content for key, content in state.contents.items() if content.job_id in jobs},
        keyed={
            name: record
            for name, record in state.keyed.items()
            if _owner(record) in (None, "", *mine) and (record.is_in_every_part or not query.after)
        },
        workers=dict(state.workers),
        tallies=dict(state.tallies),
        entries=[entry for key in ids for entry in entries[key]],
        events=[event for key in jobs for event in job_history(store, key)] if query.texts else [],
        api_keys=api_keys,
        api_key_uses={key: use for key, use in state.api_key_uses.items() if key in api_keys},
        hooks={name: hook for name, hook in state.hooks.items() if hook.job_id in jobs},
    )


def _owner(record: Keyed) -> str | None:
    return None if record.belongs_to is None else getattr(record, record.belongs_to)


def _of(accounts: set[str], items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: value for key, value in items if value.account_id in accounts}


STATE_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.GetState: _get_state,
}
