"""Claim: leases the best ready jobs of a worker's pools, never more than a pool's slots.

Jobs with the same content hash run one at a time. A claim records in `contents` which one runs. A job that finds
another job there is parked behind it, and gets its result if it completes.
"""

from __future__ import annotations

from msgspec.structs import replace

from . import states
from .commands import Claim, ClaimJob
from .outcomes import Claimed, ClaimedJob, Refusal
from .policy import MILLISECOND
from .records import HELD, Content, Job, Leased, Parked, Pool, Ready
from .refusals import no_job, no_pool
from .rule import Needs, Rule
from .suspects import is_suspect
from .workspace import Workspace


def claim(ws: Workspace, command: Claim) -> Claimed | Refusal:
    for name in command.pools:
        if ws.pool(name) is None:
            return no_pool(name)
    leases: list[ClaimedJob] = []
    behind: list[str] = []
    answered: list[str] = []
    held_back: list[tuple[str, str]] = []
    pools = _open_pools(ws, command.pools)
    # At most `limit` jobs are examined: so many were loaded for this claim, whatever else its group decides.
    suspects: list[Job] = []
    for _ in range(command.limit):
        job = ws.claimable.next_ready(pools)
        while job is not None and command.keeps_apart and is_suspect(job):
            # Another claim of this group asked for suspects too.
            suspects.append(job)
            job = ws.claimable.next_ready(pools)
        if job is None:
            break
        if is_paused(ws.pool(job.spec.pool), job):
            set_behind(ws, job, job.id)
            behind.append(job.id)
            held_back.append((job.id, job.spec.pool))
            continue
        if job.spec.content_hash is not None and (equal := ws.content(job.spec)) is not None:
            set_behind(ws, job, equal.job_id)
            behind.append(job.id)
            if equal.result is not None:
                answered.append(job.id)
            continue
        leases.append(_lease(ws, job, command.worker, command.starts))
        if not _has_slot(ws, job.spec.pool):
            pools = _open_pools(ws, pools)
    for job in suspects:
        ws.claimable.add(job)
    return Claimed(tuple(leases), tuple(behind), tuple(answered), tuple(held_back))


def set_behind(ws: Workspace, job: Job, other: str) -> None:
    """Parks a ready or parked job behind an equal one, for at most the time limit of a run."""
    place = job.place
    assert isinstance(place, Ready | Parked), f"job {job.id} does not wait"
    ws.put_job(replace(job, place=Parked(place.rank, ws.now + job.spec.timeout_ms * MILLISECOND, other)))


def claim_job(ws: Workspace, command: ClaimJob) -> Claimed | Refusal:
    job = ws.job(command.job_id)
    if job is None or job.spec.pool != command.pool:
        return no_job(command.job_id)
    if not isinstance(job.place, Ready):
        return Refusal(
            "INVALID_STATE", f"job {job.id} cannot be taken now: {_why_not(job)}.", details={"status": job.status}
        )
    if is_paused(ws.pool(job.spec.pool), job):
        return Refusal("INVALID_STATE", f"job {job.id} cannot be taken now: its tool {job.spec.tool} is paused.")
    if job.spec.content_hash is not None and (equal := ws.content(job.spec)) is not None:
        return Refusal("INVALID_STATE", f"job {job.id} cannot be taken now: job {equal.job_id} does the same work.")
    if not _has_slot(ws, job.spec.pool):
        return Refusal(
            "INVALID_STATE", f"job {job.id} cannot be taken now: its pool {job.spec.pool} is full or paused."
        )
    return Claimed((_lease(ws, job, command.worker, command.starts),))


def _why_not(job: Job) -> str:
    if job.place is None:
        return f"it is {job.status}"
    if isinstance(job.place, HELD):
        return f"it is {job.status}, and {job.place.worker if isinstance(job.place, Leased) else 'a provider'} has it"
    return "its account is at its limit, its time has not come, or an equal job is being run"


def _lease(ws: Workspace, job: Job, worker: str, starts: bool) -> ClaimedJob:
    job = states.claimed(job, worker, ws.now, ws.policy.lease_ms)
    ws.add_event(job, "claimed", worker=worker, epoch=job.epoch)
    # A provider's job starts when the provider accepts it.
    if starts and job.spec.tool not in ws.policy.provider_tools:
        job = states.started(job, ws.now)
        ws.add_event(job, "started", epoch=job.epoch)
    ws.put_job(job)
    if job.spec.content_hash is not None:
        ws.put_content(Content(job.spec.tool, job.spec.content_hash, job.id, None))
    held = job.place
    assert isinstance(held, Leased)
    return ClaimedJob(job, ws.payload(job.id), held.worker, job.epoch, held.expires_at, held.deadline_at)


def is_paused(pool: Pool | None, job: Job) -> bool:
    """Whether the job's tool is paused: its jobs start nothing new."""
    return pool is not None and job.spec.tool in pool.paused_tools


def _open_pools(ws: Workspace, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if _has_slot(ws, name))


def _has_slot(ws: Workspace, name: str) -> bool:
    pool = ws.pool(name)
    assert pool is not None
    return not pool.paused and (pool.limit is None or ws.occupied(name) < pool.limit)


def _needs_ready(wanted: Needs, command: Claim) -> None:
    wanted.pools.update(command.pools)
    for pool in command.pools:
        wanted.ready[pool] = wanted.ready.get(pool, 0) + command.limit
    if not command.keeps_apart:
        wanted.suspects.update(command.pools)


def _needs_job(wanted: Needs, command: ClaimJob) -> None:
    wanted.owned_jobs.add(command.job_id)
    wanted.pools.add(command.pool)
    wanted.ready.setdefault(command.pool, 0)


RULES = (
    Rule(Claim, decide=claim, needs=_needs_ready, refuses=("NOT_FOUND",), locks_account=False),
    Rule(ClaimJob, decide=claim_job, needs=_needs_job, refuses=("INVALID_STATE", "NOT_FOUND")),
)
