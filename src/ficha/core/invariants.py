"""What is true of every committed state. Tests, the simulator and `ficha verify` all use these checks.

Each check returns sentences that name what is wrong and where; an empty list means that nothing is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from .dataset import State
from .library import EMPTY
from .policy import CREDITS_LOW_HOOK
from .records import (
    HELD,
    Account,
    AccountRows,
    Awaiting,
    Entry,
    File,
    FileUsage,
    Job,
    Leased,
    PageSessions,
    Parked,
    Ready,
    Status,
)
from .states import BIRTHS, FINAL, is_legal


def violations(state: State) -> list[str]:
    """Everything that is wrong with a state, or with a complete part of one."""
    return [
        *_ledger(state),
        *_counters(state),
        *_jobs(state),
        *_contents(state),
        *_keys_and_reservations(state),
        *_api_keys(state),
        *_hooks(state),
        *_files(state),
        *_sessions(state),
        *_histories(state),
    ]


def overfull_pools(state: State) -> list[str]:
    """Pools with more jobs started or running than slots. Right after a pool was made smaller, that is allowed."""
    busy = Counter(job.spec.pool for job in state.jobs.values() if isinstance(job.place, HELD))
    return [
        f"pool {pool.name} has {pool.limit} slots and {busy[pool.name]} jobs in them"
        for pool in state.pools.values()
        if pool.limit is not None and busy[pool.name] > pool.limit
    ]


def uncounted_runs(state: State) -> list[str]:
    """Workers whose tallies do not agree with the jobs that they hold: every run that began has ended or is running.

    A release without tallies did not count the runs that it began or ended, so a live database may have such workers.
    """
    open_runs: Counter[str] = Counter()
    for tally in state.tallies.values():
        open_runs[tally.worker] += tally.runs if tally.kind == "claimed" else -tally.runs
    held = Counter(job.place.worker for job in state.jobs.values() if isinstance(job.place, Leased))
    return [
        f"worker {worker} holds {held[worker]} jobs, its tallies leave {open_runs[worker]}"
        for worker in sorted(open_runs.keys() | held.keys())
        if open_runs[worker] != held[worker]
    ]


def _ledger(state: State) -> Iterator[str]:
    lines: dict[str, list[Entry]] = defaultdict(list)
    by_job: Counter[tuple[str, str]] = Counter()
    for entry in state.entries:
        lines[entry.account_id].append(entry)
        if entry.job_id is not None:
            by_job[entry.job_id, entry.kind] += 1
    for (job_id, kind), count in by_job.items():
        if count > 1:
            yield f"job {job_id} has {count} entries of kind {kind}"
    for account in state.accounts.values():
        balance = 0
        for number, entry in enumerate(lines.pop(account.id, []), start=1):
            balance += entry.amount
            if entry.number != number or entry.balance_after != balance:
                yield f"entry {entry.number} of account {account.id} does not follow from the entries before it"
            if balance < 0:
                yield f"entry {entry.number} takes account {account.id} below zero"
        if account.balance != balance:
            yield f"account {account.id} shows {account.balance} credits, its entries add up to {balance}"
    for account_id in lines:
        yield f"there are entries of account {account_id}, which does not exist"


def _counters(state: State) -> Iterator[str]:
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for job in state.jobs.values():
        mine = counted[job.account_id]
        mine["jobs"] += 1
        mine["active"] += job.place is not None
        mine["parked"] += isinstance(job.place, Parked) and job.place.due_at is None
        is_behind = isinstance(job.place, Parked) and job.place.behind is not None
        mine["admitted"] += isinstance(job.place, Ready | Leased | Awaiting) or is_behind
    held = Counter(r.account_id for r in state.reservations.values() if r.state == "active")
    for account in state.accounts.values():
        yield from _account_counters(account, counted.pop(account.id, Counter()), state)
        if account.reserved != held[account.id]:
            yield f"account {account.id} counts {account.reserved} active reservations, there are {held[account.id]}"
    for account_id in counted:
        yield f"there are jobs of account {account_id}, which does not exist"


def rows_of(state: State, account_id: str) -> AccountRows:
    """The rows of one account, counted."""
    jobs = [job for job in state.jobs.values() if job.account_id == account_id]
    places = [job.place for job in jobs if job.place is not None]
    account = state.accounts.get(account_id)
    latest = state.jobs.get((account and account.latest_job) or "")
    files = [file for file in state.of(File).values() if file.account_id == account_id and file.state != "removed"]
    return AccountRows(
        account_id,
        jobs=len(jobs),
        active=len(places),
        admitted=sum(not isinstance(place, Parked) or place.behind is not None for place in places),
        parked=sum(isinstance(place, Parked) and place.due_at is None for place in places),
        reserved=sum(r.account_id == account_id and r.state == "active" for r in state.reservations.values()),
        files=len(files),
        size=sum(file.size for file in files),
        names_ended_job=account is not None
        and account.latest_job is not None
        and (latest is None or latest.place is None),
    )


def _account_counters(account: Account, counted: Counter[str], state: State) -> Iterator[str]:
    for name in ("active", "admitted", "parked"):
        if getattr(account, name) != counted[name]:
            yield f"account {account.id} counts {getattr(account, name)} {name} jobs, there are {counted[name]}"
    if account.submitted < counted["jobs"]:
        yield f"account {account.id} counts {account.submitted} submits, there are {counted['jobs']} jobs"
    if account.parked and not account.admitted:
        yield f"account {account.id} has {account.parked} parked jobs and none that could free them"
    if account.latest_job is not None:
        latest = state.jobs.get(account.latest_job)
        if latest is None or latest.place is None:
            yield f"account {account.id} names job {account.latest_job} as active, which it is not"


_PLACES: dict[Status, tuple[type, ...]] = {
    "queued": (Ready, Parked),
    "starting": (Leased,),
    "running": (Leased, Awaiting),
}


def _jobs(state: State) -> Iterator[str]:
    moved: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in state.entries:
        if entry.job_id is not None:
            moved[entry.job_id][entry.kind] += entry.amount
    yield from _left(state, moved)
    for job in state.jobs.values():
        if not isinstance(job.place, _PLACES.get(job.status, (type(None),))):
            yield f"job {job.id} is {job.status} but its place is {job.place}"
        if (job.status in FINAL) != (job.finished_at is not None):
            yield f"job {job.id} is {job.status} but finished_at is {job.finished_at}"
        yield from _money(job, moved[job.id])
        if job.attempts > job.spec.max_attempts:
            yield f"job {job.id} failed {job.attempts} times, more than its {job.spec.max_attempts} attempts"
        if job.dead_at is not None and job.status != "failed":
            yield f"job {job.id} is {job.status} but stands in the dead-letter list"
        if job.removed_at is not None:
            yield from _removed(job, state)
        if job.payload_removed_at is not None and state.payloads.get(job.id, EMPTY) != EMPTY:
            yield f"job {job.id} lost its payload by its age but has it"
    for job_id, name in state.steps:
        if job_id in state.jobs and state.jobs[job_id].removed_at is not None:
            yield f"job {job_id} was removed from the library but has the step {name}"


def _left(state: State, moved: dict[str, Counter[str]]) -> Iterator[str]:
    """Checks jobs that the ledger names and that have no row any more: together with the other jobs of the account they
    are no more than it submitted, and none of them got back more than it was charged."""
    there = Counter(job.account_id for job in state.jobs.values())
    missing: dict[str, dict[str, Entry]] = defaultdict(dict)
    for entry in state.entries:
        if entry.job_id is not None and entry.job_id not in state.jobs:
            missing[entry.account_id].setdefault(entry.job_id, entry)
    for account_id, entries in missing.items():
        account = state.accounts.get(account_id)
        for job_id, entry in entries.items():
            if account is None or there[account_id] + len(entries) > account.submitted:
                yield f"entry {entry.number} of {account_id} names job {job_id}, which does not exist"
            if moved[job_id]["refund"] > -moved[job_id]["charge"]:
                yield f"job {job_id}, which has left, got back more than it was charged"


def _removed(job: Job, state: State) -> Iterator[str]:
    """Checks a job whose work was removed. A text that was not loaded counts as removed."""
    if job.status not in FINAL:
        yield f"job {job.id} is {job.status} but was removed from the library"
    if any(texts.get(job.id, EMPTY) != EMPTY for texts in (state.payloads, state.results)):
        yield f"job {job.id} was removed from the library but has its payload or its result"


def _money(job: Job, moved: Counter[str]) -> Iterator[str]:
    if job.charged != -moved["charge"]:
        yield f"job {job.id} shows {job.charged} charged, the ledger {-moved['charge']}"
    if job.refunded != moved["refund"]:
        yield f"job {job.id} shows {job.refunded} refunded, the ledger {moved['refund']}"
    if job.refunded > job.charged:
        yield f"job {job.id} got back {job.refunded} of {job.charged} credits"
    if job.status in ("failed", "cancelled") and job.refunded != job.charged:
        yield f"job {job.id} is {job.status} but {job.charged - job.refunded} credits were not refunded"
    if job.status not in FINAL and job.refunded:
        yield f"job {job.id} is {job.status} but was refunded already"


def _contents(state: State) -> Iterator[str]:
    """Checks that of equal jobs one is held at a time, and that their content names it."""
    for job in state.jobs.values():
        if job.spec.content_hash is not None and isinstance(job.place, HELD):
            content = state.contents.get((job.spec.tool, job.spec.content_hash))
            if content is None or content.job_id != job.id:
                yield f"job {job.id} is held, but its content is {'no' if content is None else 'another'} job's"
    for content in state.contents.values():
        computing = state.jobs.get(content.job_id)
        if content.result is None and (computing is None or not isinstance(computing.place, HELD)):
            yield f"content {content.content_hash} of {content.tool} waits for job {content.job_id}, which is not held"


def _keys_and_reservations(state: State) -> Iterator[str]:
    there = Counter(job.account_id for job in state.jobs.values())
    left = {account.id for account in state.accounts.values() if account.submitted > there[account.id]}
    for key in state.keys.values():
        if key.account_id not in state.accounts:
            yield f"key {key.key!r} belongs to account {key.account_id}, which does not exist"
        if key.scope == "submit":
            job = state.jobs.get(key.job_id or "")
            has_left = job is None and key.job_id is not None and key.account_id in left
            if not has_left and (job is None or job.account_id != key.account_id):
                yield f"key {key.key!r} of account {key.account_id} names job {key.job_id}, which is not its own"
    for held in state.reservations.values():
        if held.account_id not in state.accounts:
            yield f"reservation {held.id} belongs to account {held.account_id}, which does not exist"


def _api_keys(state: State) -> Iterator[str]:
    for key in state.api_keys.values():
        if (key.scope == "user") != (key.account_id is not None):
            yield f"API key {key.id} has the scope {key.scope} and the account {key.account_id}"
        elif key.account_id is not None and key.account_id not in state.accounts:
            yield f"API key {key.id} acts for account {key.account_id}, which does not exist"


def _hooks(state: State) -> Iterator[str]:
    for hook in state.hooks.values():
        job = state.jobs.get(hook.job_id)
        # The hook for low credits is added when the job is charged, before it ends.
        if job is None or (job.place is not None and hook.name != CREDITS_LOW_HOOK):
            yield f"the hook {hook.name} is to be run for job {hook.job_id}, which has not ended"


def _files(state: State) -> Iterator[str]:
    """Checks that an account's usage is the sum of its files, and that every file is whole and has an account."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for file in state.of(File).values():
        if file.account_id not in state.accounts:
            yield f"file {file.id} belongs to account {file.account_id}, which does not exist"
        if file.state != "removed":
            counted[file.account_id].update(files=1, size=file.size)
        if file.state != "stored" and file.expires_at is None:
            yield f"file {file.id} is {file.state} and would stay so for ever"
        if file.state == "stored" and not (file.digest and file.media_type):
            yield f"file {file.id} is stored without a digest or a type"
        if file.role == "result" and file.state != "removed":
            job = state.jobs.get(file.job_id or "")
            if job is None or job.account_id != file.account_id:
                yield f"file {file.id} is a result of job {file.job_id}, which is not its account's"
    usages = state.of(FileUsage)
    for account_id in sorted(counted.keys() | usages.keys()):
        used, mine = usages.get(account_id, FileUsage(account_id)), counted[account_id]
        if (used.files, used.size) != (mine["files"], mine["size"]):
            yield (
                f"account {account_id} counts {used.files} files of {used.size} bytes, there are {mine['files']} of "
                f"{mine['size']}"
            )


def _sessions(state: State) -> Iterator[str]:
    """Checks `next_at`, by which queries find the sessions that end."""
    for known in state.of(PageSessions).values():
        if known.account_id not in state.accounts:
            yield f"there are sessions of account {known.account_id}, which does not exist"
        first = min((session.ends_at for session in known.sessions), default=None)
        if first != known.next_at:
            yield f"the first session of account {known.account_id} is to end at {known.next_at}, it ends at {first}"


_STATUS_AFTER: dict[str, Status] = {
    "submitted": "queued",
    "reused": "completed",
    "claimed": "starting",
    "started": "running",
    "retried": "queued",
    "recovered": "queued",
    "returned": "queued",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""The events that change a job's status, and the new status. All others leave it."""


def _histories(state: State) -> Iterator[str]:
    """Checks that every history is complete, follows the transition table with rising epochs, and ends with the job's
    status."""
    status: dict[str, Status] = {}
    epochs: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for event in state.events:
        number = numbers.get(event.job_id, 0) + 1
        if event.number != number:
            yield f"event {event.number} of job {event.job_id} stands where its event {number} should"
        numbers[event.job_id] = event.number
        after = _STATUS_AFTER.get(event.kind)
        if event.kind == "accepted" and status.get(event.job_id) == "starting":
            after = "running"
        if after is None:
            continue
        before = status.get(event.job_id)
        is_right = after in BIRTHS if before is None else is_legal(before, after)
        if not is_right or (before == "queued" and event.kind == "completed"):
            yield f"the history of job {event.job_id} goes from {before} to {after}"
        status[event.job_id] = after
        if event.kind == "claimed":
            epoch = (event.data or {})["epoch"]
            if epoch <= epochs.get(event.job_id, 0):
                yield f"job {event.job_id} was claimed under epoch {epoch} after {epochs[event.job_id]}"
            epochs[event.job_id] = epoch
    if state.events:
        for job in state.jobs.values():
            if status.get(job.id) != job.status:
                yield f"job {job.id} is {job.status}, its history ends with {status.get(job.id)}"
            if numbers.get(job.id, 0) != job.events:
                yield f"job {job.id} counts {job.events} events, its history ends with number {numbers.get(job.id, 0)}"
