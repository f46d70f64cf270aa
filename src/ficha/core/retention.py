"""Retention: when an ended job, its result and its payload are removed, and what is removed with them.

An age counts from the job's end. The job's row is deleted last, and its lines of the ledger never are. A job in the
dead-letter list keeps its payload and its result until its row is deleted, because a requeue needs them.

For each age a walk passes all jobs in the order of their ids, which is that of their submits. It reaches a job when the
age and `LAG` have passed since the submit. Nearly all jobs ended within `LAG` of their submit, and so are due. For each
of the others a `KeptJob` says when to check it again. So the walks read no job more often than there are ages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from .commands import MoveRetention, OldJob, PruneJobs
from .files import removed
from .library import EMPTY
from .outcomes import Pruned, Removal, RetentionMoved
from .policy import CLOSED_PLAN, DAY, HOUR, MILLISECOND, Keep, Retention
from .records import File, FileUsage, Job, KeptJob, RetentionCursor
from .rule import Needs, Rule
from .workspace import Workspace

LAG: Final = DAY
"""How much later than its age a walk reaches a job. A job that ended within this time of its submit is due then."""
WALK: Final = "jobs"
"""The key of the one cursor."""
_UUID7: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_KINDS: Final = ("jobs", "payloads", "results")


def ages(retention: Retention, tool: str, plan: str) -> tuple[int | None, int | None, int | None]:
    """Returns the ages, in microseconds, at which a job, its payload and its result are removed; None: never."""
    terms = (retention.by_tool.get(tool), retention.by_plan.get(plan))
    return tuple(_age(retention, terms, kind) for kind in _KINDS)  # type: ignore[return-value]


def _age(retention: Retention, terms: tuple[Keep | None, ...], kind: str) -> int | None:
    given = [days for keep in terms if keep is not None and (days := getattr(keep, kind)) is not UNSET]
    return _microseconds([*given, getattr(retention, kind)][0])


def _microseconds(days: float | None) -> int | None:
    return None if days is None else int(days * DAY)


def due(retention: Retention, job: Job, now: int) -> Removal | None:
    """Returns what is due to be removed of a job now."""
    found = [(at, what) for at, what in _ends(retention, job) if at <= now]
    order = ("job", "result", "payload")
    return min((what for _, what in found), key=order.index, default=None)


def due_next(retention: Retention, job: Job) -> int | None:
    """Returns when something of an ended job is removed next; None: never."""
    return min((at for at, _ in _ends(retention, job)), default=None)


def _ends(retention: Retention, job: Job) -> Iterator[tuple[int, Removal]]:
    """Yields what is still to be removed of a job, and when."""
    if job.place is not None or job.finished_at is None:
        return
    jobs, payloads, results = ages(retention, job.spec.tool, job.plan)
    if jobs is not None:
        yield job.finished_at + jobs, "job"
    if job.dead_at is not None or job.removed_at is not None:
        return
    if results is not None:
        yield job.finished_at + results, "result"
    if payloads is not None and job.payload_removed_at is None:
        yield job.finished_at + payloads, "payload"


def walked_ages(retention: Retention) -> list[int]:
    """Returns every age in the rules, the longest first: a job that is deleted whole is not emptied before."""
    terms = (retention, *retention.by_plan.values(), *retention.by_tool.values())
    found = {getattr(keep, kind) for keep in terms for kind in _KINDS} - {None, UNSET}
    return sorted({int(days * DAY) for days in found}, reverse=True)


def concerns(retention: Retention, job: Job, age: int, now: int) -> bool:
    """Whether the walk of an age must handle a job: something of it is due, or the walk came too early for it."""
    is_due = due(retention, job, now) is not None
    return is_due or (_is_late(job) and age in ages(retention, job.spec.tool, job.plan))


def _is_late(job: Job) -> bool:
    """Whether walks may reach a job before it is due."""
    return job.dead_at is not None or job.finished_at is None or job.finished_at > _walked_from(job) + LAG


def _walked_from(job: Job) -> int:
    """Returns the time in the job's id, by which walks find it. It is from the clock of the process that submitted."""
    return int(job.id[:8] + job.id[9:13], 16) * MILLISECOND if _UUID7.fullmatch(job.id) else job.created_at


def rules_name(retention: Retention) -> str:
    """Returns a name that is the same for the same rules. Under rules of another name every walk begins anew."""
    told = (
        [getattr(retention, kind) for kind in _KINDS],
        *(sorted(by.items(), key=lambda item: item[0]) for by in (retention.by_plan, retention.by_tool)),
    )
    return sha256(msgspec.json.encode(told)).hexdigest()[:16]


def prune_jobs(ws: Workspace, command: PruneJobs) -> Pruned:
    """Removes what is due. Each job is checked again here. Of a closed account all ended jobs are removed, whatever
    their age."""
    account = ws.account(command.account_id)
    if account is not None and command.batches and account.submitted != command.submitted:
        return Pruned({}, changed=False)
    removals: dict[str, Removal] = {}
    gone: list[str] = []
    left: set[str | None] = set()
    kept = 0
    for old in command.jobs:
        job = ws.job(old.id)
        if job is None:
            _look_no_more(ws, old.id)
        if job is None or account is None or job.account_id != account.id:
            continue
        is_closed = account.plan == CLOSED_PLAN and job.place is None
        what: Removal | None = "job" if is_closed else due(ws.policy.retention, job, ws.now)
        if what is not None and (is_closed or not ws.has_hooks(job.id)):
            gone += _remove(ws, job, old, what)
            removals[job.id] = what
        if what != "job" or job.id not in removals:
            left.add(job.batch_id)
            kept += _look_again(ws, job.id)
    batches = [batch_id for batch_id in command.batches if batch_id not in left]
    for batch_id in batches:
        batch = ws.batch(batch_id)
        if batch is not None and account is not None and batch.account_id == account.id:
            ws.forget_batch(batch_id)
    return Pruned(removals, kept, tuple(gone), len(batches))


def _remove(ws: Workspace, job: Job, old: OldJob, what: Removal) -> list[str]:
    """Removes this part of a job. Returns the files that were removed with it."""
    inputs = [] if job.removed_at or job.payload_removed_at else _give_back(ws, job, old.inputs)
    if what == "payload":
        ws.put_job(replace(job, payload_removed_at=ws.now))
        ws.forget_payload(job.id, EMPTY)
        return inputs
    if job.spec.content_hash is not None and old.content is not None:
        ws.forget_content(job)
    made = (ws.find(File, file_id) for file_id in old.files)
    mine = [file for file in made if file is not None and file.role == "result" and _is_of(job, file)]
    gone = [*inputs, *(removed(ws, file).id for file in mine if not file.uses or what == "job")]
    if what == "job":
        if job.dead_at is not None:
            job = replace(job, dead_at=None)
            ws.put_job(job)
        ws.forget_job(job)
        _look_no_more(ws, job.id)
        return gone
    point = job.checkpoint
    emptied = None if point is None else replace(point, data=EMPTY, partial=None)
    ws.put_job(replace(job, checkpoint=emptied, removed_at=ws.now))
    ws.forget_texts(job.id, EMPTY)
    return gone


def _is_of(job: Job, file: File) -> bool:
    return (file.account_id, file.job_id) == (job.account_id, job.id) and file.state != "removed"


def _give_back(ws: Workspace, job: Job, inputs: tuple[str, ...]) -> list[str]:
    """Ends a job's use of its input files. Removes and returns those that no other job uses; files that jobs made
    stay."""
    gone = []
    for file_id in inputs:
        file = ws.find(File, file_id)
        if file is None or file.account_id != job.account_id or file.state != "stored" or not file.uses:
            continue
        file = replace(file, uses=file.uses - 1)
        ws.put(file)
        if file.uses == 0 and file.role == "input":
            gone.append(removed(ws, file).id)
    return gone


def _look_again(ws: Workspace, job_id: str) -> int:
    """Stores when to check the job again, if something of it is due at a time when no walk reaches it. Returns 1 then,
    otherwise 0."""
    job = ws.job(job_id)
    assert job is not None
    next_at = due_next(ws.policy.retention, job)
    if job.place is not None or job.dead_at is not None:
        # Somebody may end it, or take it off the dead-letter list, at any time.
        next_at = ws.now + DAY if next_at is None else min(next_at, ws.now + DAY)
    if next_at is None or (next_at > ws.now and not _is_late(job)):
        _look_no_more(ws, job_id)
        return 0
    # A job that is due and was not removed has hooks that are still to be run.
    ws.put(KeptJob(job_id, next_at if next_at > ws.now else ws.now + HOUR))
    return 1


def _look_no_more(ws: Workspace, job_id: str) -> None:
    if (kept := ws.find(KeptJob, job_id)) is not None:
        ws.remove(kept)


def move_retention(ws: Workspace, command: MoveRetention) -> RetentionMoved:
    cursor = ws.find(RetentionCursor, WALK) or RetentionCursor(WALK, command.rules)
    if cursor.turn != command.turn:
        return RetentionMoved(cursor, changed=False)
    cursor = RetentionCursor(WALK, command.rules, cursor.turn + 1, command.walks)
    ws.put(cursor)
    return RetentionMoved(cursor)


def _needs_jobs(wanted: Needs, command: PruneJobs) -> None:
    wanted.accounts.add(command.account_id)
    wanted.find(FileUsage, command.account_id)
    wanted.batches.update(command.batches)
    for job in command.jobs:
        wanted.owned_jobs.add(job.id)
        wanted.hooks_of.add(job.id)
        wanted.find(File, *job.files, *job.inputs)
        wanted.find(KeptJob, job.id)
        if job.content is not None:
            wanted.contents.add(job.content)


def _needs_cursor(wanted: Needs, command: MoveRetention) -> None:
    wanted.find(RetentionCursor, WALK)


RULES = (
    Rule(PruneJobs, decide=prune_jobs, needs=_needs_jobs),
    Rule(MoveRetention, decide=move_retention, needs=_needs_cursor, locks_account=False),
)
