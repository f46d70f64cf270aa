"""Answers the queries of the read side by walking the state."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from ...core.dataset import State
from ...core.history import history
from ...core.library import is_in_library
from ...core.policy import DAY, MILLISECOND, SECOND
from ...core.quota import state_of
from ...core.records import (
    HELD,
    Account,
    ApiKey,
    Awaiting,
    Entry,
    Event,
    File,
    FileUsage,
    Job,
    JobSpec,
    Key,
    Keyed,
    Leased,
    PageSessions,
    Parked,
    PendingHook,
    ProviderOutage,
    ProviderState,
    Ready,
    Reservation,
    Step,
)
from ...core.snapshot import Snapshot
from .. import base as q
from ..waiting_columns import Lines
from .bulk_reads import BULK_READS
from .figure_reads import FIGURE_READS
from .operator_reads import OPERATOR_READS
from .retention_reads import RETENTION_READS
from .schedule_reads import SCHEDULE_READS
from .search_reads import SEARCH_READS
from .session_reads import SESSION_READS
from .webhook_reads import WEBHOOK_READS

if TYPE_CHECKING:
    from .store import MemoryStore

T = TypeVar("T")


def answer(store: MemoryStore, query: q.Query[T]) -> T:
    result: T = _ANSWERS[type(query)](store, query)
    return result


def _row(state: State, job: Job) -> q.JobRow:
    return q.JobRow(job, state.payloads[job.id], state.results.get(job.id))


def _get_jobs(store: MemoryStore, query: q.GetJobs) -> list[q.JobRow]:
    return [_row(store.state, store.state.jobs[key]) for key in dict.fromkeys(query.ids) if key in store.state.jobs]


def _list_jobs(store: MemoryStore, query: q.ListJobs) -> list[Job]:
    def fits(job: Job) -> bool:
        return (
            (query.before is None or job.id < query.before)
            and query.account_id in (None, job.account_id)
            and (not query.statuses or job.status in query.statuses)
            and all(getattr(query, name) in (None, _field(job, name)) for name in q.LISTED_BY)
            and (not query.dead or job.dead_at is not None)
            and (query.stuck_before_at is None or _is_silent(job, query.stuck_before_at))
        )

    found = sorted((job for job in store.state.jobs.values() if fits(job)), key=lambda job: job.id, reverse=True)
    return [q.without_texts(job) for job in found[: query.limit]]


def _field(job: Job, name: str) -> Any:
    """A job's field, also one of its spec."""
    return getattr(job.spec, name) if name in JobSpec.__struct_fields__ else getattr(job, name)


def _list_library(store: MemoryStore, query: q.ListLibrary) -> q.LibraryPart:
    mine = [job for job in store.state.jobs.values() if job.account_id == query.account_id]
    older = sorted((job for job in mine if query.before is None or job.id < query.before), key=_job_id, reverse=True)
    searched = older[: query.searched]

    def fits(job: Job) -> bool:
        return (
            is_in_library(job)
            and query.tool in (None, job.spec.tool)
            and (query.since_at is None or job.created_at >= query.since_at)
            and (query.until_at is None or job.created_at < query.until_at)
            and (query.search is None or query.search.lower() in store.state.payloads[job.id].lower())
        )

    found = [q.without_texts(job) for job in searched if fits(job)][: query.limit]
    if len(found) == query.limit:
        return q.LibraryPart(found, (found[-1].id, found[-1].created_at))
    last = searched[-1] if len(searched) == query.searched else None
    return q.LibraryPart(found, None if last is None else (last.id, last.created_at))


_job_id = attrgetter("id")


def _is_silent(job: Job, before_at: int) -> bool:
    return isinstance(job.place, Leased) and job.place.heartbeat_at < before_at


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


def _get_history(store: MemoryStore, query: q.GetHistory) -> list[Event]:
    return _history(store, query.job_id)[query.after :][: query.limit]


def _history(store: MemoryStore, job_id: str) -> list[Event]:
    job = store.state.jobs.get(job_id)
    return [] if job is None else history(job, store.history.get(job_id, ()))


def _list_accepted(store: MemoryStore, query: q.ListAccepted) -> list[Event]:
    kept = (event for events in store.history.values() for event in events)
    found = [event for event in kept if event.data is not None and event.data.get("ref") == query.ref]
    return sorted(found, key=lambda event: (event.at, event.job_id), reverse=True)


def _list_job_events(store: MemoryStore, query: q.ListJobEvents) -> list[Event]:
    return [event for event in store.history.get(query.job_id, ()) if event.kind == query.kind]


def _list_polls(store: MemoryStore, query: q.ListPolls) -> list[q.DuePoll]:
    now = store.clock()
    found = sorted(
        (job.place.poll_at, job.id)
        for held in store.held.values()
        for job in map(store.state.jobs.__getitem__, held)
        if isinstance(job.place, Awaiting) and job.place.poll_at is not None and job.spec.tool in query.tools
    )
    return [q.DuePoll(job_id, max(0, -(-(poll_at - now) // MILLISECOND))) for poll_at, job_id in found[: query.limit]]


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


def _list_steps(store: MemoryStore, query: q.ListSteps) -> list[Step]:
    return [step for step in store.state.steps.values() if step.job_id == query.job_id]


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


def _get_batch(store: MemoryStore, query: q.GetBatch) -> q.BatchCounts | None:
    batch = store.state.batches.get(query.batch_id)
    if batch is None:
        return None
    counts = Counter(job.status for job in store.state.jobs.values() if job.batch_id == batch.id)
    return q.BatchCounts(batch, dict(counts))


def _list_pools(store: MemoryStore, query: q.ListPools) -> list[q.PoolCounts]:
    waiting: Counter[tuple[str, type]] = Counter()
    if query.count_waiting:
        waiting.update((job.spec.pool, type(job.place)) for job in store.state.jobs.values())
    return [
        q.PoolCounts(pool, len(store.held[name]), waiting[name, Ready], waiting[name, Parked])
        for name, pool in sorted(store.state.pools.items())
    ]


def _list_workers(store: MemoryStore, query: q.ListWorkers) -> q.WorkerList:
    state, now = store.state, store.clock()
    stuck_at = now - query.stuck_ms * MILLISECOND
    names = sorted(state.workers.keys() | {worker for worker, _ in state.tallies})
    held = defaultdict[str, list[Job]](list)
    for job in state.jobs.values():
        if isinstance(job.place, Leased):
            held[job.place.worker].append(job)
    counts = [
        q.WorkerCounts(
            name,
            state.workers.get(name),
            tuple(tally for (worker, _), tally in sorted(state.tallies.items()) if worker == name),
            running=len(held[name]),
            stuck=sum(_is_silent(job, stuck_at) for job in held[name]),
        )
        for name in [name for name in names if query.after is None or name > query.after][: query.limit]
    ]
    return q.WorkerList(now, counts)


def _get_waiting(store: MemoryStore, query: q.GetWaiting) -> q.Waiting:
    return q.Waiting(_lines(store, store.ready), _lines(store, store.parked))


def _lines(store: MemoryStore, lists: Mapping[str, set[str]]) -> Lines:
    lines = Lines()
    for owner, ids in sorted(lists.items()):
        if ids:
            keys = sorted(map(store.claim_order, ids))
            ranks = b"".join(rank.to_bytes(8, "big", signed=True) for rank, _ in keys)
            lines.append([owner], [len(keys)], ranks, b"".join(UUID(job_id).bytes for _, job_id in keys))
    return lines


def _get_due(store: MemoryStore, query: q.GetDue) -> q.Due:
    now, state = store.clock(), store.state
    stuck_at = now - query.stuck_ms * MILLISECOND
    old_at = now - query.max_age_ms * MILLISECOND

    def is_due(job: Job) -> bool:
        waits_too_long = job.started_at is None and job.wait_until_at is not None and job.wait_until_at <= now
        match job.place:
            case Leased() as lease:
                is_over = min(lease.expires_at, lease.deadline_at) <= now or lease.heartbeat_at <= stuck_at
                return is_over or (job.started_at is not None and job.started_at <= old_at)
            case Awaiting() as outside:
                return outside.deadline_at <= now or (job.started_at is not None and job.started_at <= old_at)
            case Parked(due_at=int(due_at), behind=behind):
                held = None if behind is None else state.jobs.get(behind)
                is_free = behind is not None and (held is None or not isinstance(held.place, HELD))
                return due_at <= now or is_free or waits_too_long
            case Ready(ages_at=int(ages_at)):
                return ages_at <= now or waits_too_long
            case Ready() | Parked():
                return waits_too_long
            case _:
                return False

    following: dict[str, int] = {}
    parked = [(job.place, job.spec.pool) for job in state.jobs.values() if isinstance(job.place, Parked)]
    later = sorted((p.due_at, pool) for p, pool in parked if p.due_at and p.due_at > now and p.behind is None)
    for due_at, pool in later[: query.limit]:
        following.setdefault(pool, due_at)
    return q.Due(
        now,
        jobs=[job.id for job in state.jobs.values() if is_due(job)][: query.limit],
        reservations=[
            held.id
            for held in state.reservations.values()
            if held.expires_at <= (now if held.state == "active" else now - query.reservations_kept_ms * MILLISECOND)
        ][: query.limit],
        keys=[name for name, key in state.keys.items() if key.expires_at is not None and key.expires_at <= now][
            : query.limit
        ],
        next=following,
        sessions=[known.account_id for known in state.of(PageSessions).values() if known.next_at <= now][: query.limit],
    )


def _get_stats(store: MemoryStore, query: q.GetStats) -> q.Stats:
    stuck_at = store.clock() - query.stuck_ms * MILLISECOND
    active = [job for job in store.state.jobs.values() if job.place is not None]
    held = [job for job in active if isinstance(job.place, HELD)]
    told = [commit for commit in store.commit_rows if commit.events][-q.COMMITS_AVERAGED :]
    newest = (event for commit in told for event in commit.events)
    completed = [store.state.jobs[event.job_id] for event in newest if event.kind == "completed"]
    runs = [job.finished_at - job.started_at for job in completed if job.finished_at and job.started_at]
    return q.Stats(
        by_status=dict(Counter(job.status for job in active)),
        by_checkpoint=dict(Counter(job.checkpoint.name if job.checkpoint else "" for job in held)),
        stuck=sum(_is_silent(job, stuck_at) for job in held),
        dead=sum(job.dead_at is not None for job in store.state.jobs.values()),
        avg_run_s=sum(runs) / len(runs) / SECOND if runs else None,
    )


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


def _list_hooks(store: MemoryStore, query: q.ListHooks) -> list[PendingHook]:
    now = store.clock()
    found = [
        hook
        for hook in store.state.hooks.values()
        if (not query.names or hook.name in query.names) and (not query.is_due or hook.due_at <= now)
    ]
    return sorted(found, key=lambda hook: (hook.due_at, hook.job_id, hook.name))[: query.limit]


def _get_files(store: MemoryStore, query: q.GetFiles) -> list[File]:
    files = store.state.of(File)
    return [files[key] for key in dict.fromkeys(query.ids) if key in files]


def _list_files(store: MemoryStore, query: q.ListFiles) -> list[File]:
    def fits(file: File) -> bool:
        return (
            file.state != "removed"
            and query.account_id in (None, file.account_id)
            and query.role in (None, file.role)
            and (query.before is None or file.id < query.before)
        )

    found = sorted(filter(fits, store.state.of(File).values()), key=lambda file: file.id, reverse=True)
    return found[: query.limit]


def _list_linked_files(store: MemoryStore, query: q.ListLinkedFiles) -> list[File]:
    def link(file: File) -> str | None:
        return file.job_id if query.link == "job" else file.reservation_id

    wanted = [file for file in store.state.of(File).values() if file.state != "removed" and link(file) in query.ids]
    return sorted(wanted, key=lambda file: file.id)[: query.limit]


def _list_due_files(store: MemoryStore, query: q.ListDueFiles) -> list[File]:
    now = store.clock()
    due = [(file.expires_at, file.id, file) for file in store.state.of(File).values() if file.expires_at is not None]
    return [file for expires_at, _, file in sorted(due, key=lambda one: one[:2]) if expires_at <= now][: query.limit]


def _get_file_usage(store: MemoryStore, query: q.GetFileUsage) -> FileUsage:
    return store.state.of(FileUsage).get(query.account_id, FileUsage(query.account_id))


def _list_providers(store: MemoryStore, query: q.ListProviders) -> list[q.ProviderRow]:
    states, outages = store.state.of(ProviderState), store.state.of(ProviderOutage)
    names = sorted({*states, *outages})[: query.limit]
    return [q.ProviderRow(name, store.clock(), states.get(name), outages.get(name)) for name in names]


def _get_margins(store: MemoryStore, query: q.GetMargins) -> list[q.MarginLine]:
    sums: dict[tuple[int, str, str], list[int]] = {}
    for job in store.state.jobs.values():
        if job.provider_cost is not None and query.since_at <= job.created_at < query.until_at:
            found = sums.setdefault((job.created_at // DAY, job.spec.tool, job.plan), [0, 0, 0])
            for index, amount in enumerate((1, job.charged - job.refunded, job.provider_cost)):
                found[index] += amount
    return [q.MarginLine(*names, *amounts) for names, amounts in sorted(sums.items())[: query.limit]]


def _get_snapshot(store: MemoryStore, query: q.GetSnapshot) -> Snapshot:
    return store.snapshot(query.needs)


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
        events=[event for key in jobs for event in _history(store, key)] if query.texts else [],
        api_keys=api_keys,
        api_key_uses={key: use for key, use in state.api_key_uses.items() if key in api_keys},
        hooks={name: hook for name, hook in state.hooks.items() if hook.job_id in jobs},
    )


def _owner(record: Keyed) -> str | None:
    return None if record.belongs_to is None else getattr(record, record.belongs_to)


def _of(accounts: set[str], items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: value for key, value in items if value.account_id in accounts}


_ANSWERS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.GetJobs: _get_jobs,
    q.ListJobs: _list_jobs,
    q.ListLibrary: _list_library,
    q.GetAccount: _get_account,
    q.ListAccounts: _list_accounts,
    q.ListEntries: _list_entries,
    q.GetHistory: _get_history,
    q.ListAccepted: _list_accepted,
    q.ListJobEvents: _list_job_events,
    q.ListPolls: _list_polls,
    q.ListCommits: _list_commits,
    q.GetFirstSearched: _get_first_searched,
    q.GetHorizon: _get_horizon,
    q.ListSteps: _list_steps,
    q.ListReservations: _list_reservations,
    q.ListKeys: _list_keys,
    q.GetBatch: _get_batch,
    q.ListPools: _list_pools,
    q.ListWorkers: _list_workers,
    q.GetWaiting: _get_waiting,
    q.GetDue: _get_due,
    q.GetStats: _get_stats,
    q.GetApiKey: _get_api_key,
    q.ListApiKeys: _list_api_keys,
    q.GetRevokedApiKeys: _get_revoked_api_keys,
    q.ListHooks: _list_hooks,
    q.GetFiles: _get_files,
    q.ListFiles: _list_files,
    q.ListLinkedFiles: _list_linked_files,
    q.ListDueFiles: _list_due_files,
    q.GetFileUsage: _get_file_usage,
    q.ListProviders: _list_providers,
    q.GetMargins: _get_margins,
    **WEBHOOK_READS,
    **(OPERATOR_READS | SEARCH_READS),
    **SESSION_READS,
    **FIGURE_READS,
    **BULK_READS,
    **SCHEDULE_READS,
    **(BULK_READS | RETENTION_READS),
    q.GetSnapshot: _get_snapshot,
    q.GetState: _get_state,
}
