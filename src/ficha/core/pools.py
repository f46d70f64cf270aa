"""Pools: declared by the application, paused and resized by an operator; and the reason why a job waits."""

from __future__ import annotations

from typing import Final, Literal

from msgspec.structs import replace

from .commands import DeclarePool, Elect, PausePool, ResizePool
from .outcomes import Elected, PoolChanged, Refusal
from .policy import MILLISECOND
from .records import Job, Leader, Parked, Pool, Ready
from .refusals import no_pool
from .rule import Audited, Needs, Rule
from .workspace import Workspace

WaitReason = Literal["schedule", "account_limit", "equal_job", "tool_paused", "pool_paused", "pool_full", "place"]
COUNTED_READY: Final = 10_000
COUNTED_READY_MOST: Final = 100_000
"""A count of ready jobs ends at `COUNTED_READY`, or where the caller says, at most at `COUNTED_READY_MOST`."""
CONCURRENCY: Final = 10
"""How many jobs a worker holds at a time, unless it says otherwise or a tool takes more of them per call."""
LONGEST_TERM_MS: Final = 600_000
"""No duty is given for longer. A term that ends later than that was given by a wrong clock, and counts as over."""


def declare_pool(ws: Workspace, command: DeclarePool) -> PoolChanged | Refusal:
    """Declares a pool, or updates its number of slots; an operator's resize stays in force."""
    if (refusal := _refuse_slots(command.slots)) is not None:
        return refusal
    pool = ws.pool(command.name)
    return _put(ws, pool, Pool(command.name, command.slots) if pool is None else replace(pool, slots=command.slots))


def pause_pool(ws: Workspace, command: PausePool) -> PoolChanged | Refusal:
    """A paused pool starts no jobs; running ones continue."""
    pool = ws.pool(command.name)
    return no_pool(command.name) if pool is None else _put(ws, pool, replace(pool, paused=command.paused))


def resize_pool(ws: Workspace, command: ResizePool) -> PoolChanged | Refusal:
    """With fewer slots than busy ones no job is ended: the pool starts no jobs until it has a free slot."""
    if (refusal := _refuse_slots(command.resized)) is not None:
        return refusal
    pool = ws.pool(command.name)
    return no_pool(command.name) if pool is None else _put(ws, pool, replace(pool, resized=command.resized))


def _put(ws: Workspace, before: Pool | None, after: Pool) -> PoolChanged:
    if before != after:
        ws.put_pool(after)
    return PoolChanged(after)


def _refuse_slots(slots: int | None) -> Refusal | None:
    if slots is None or 0 <= slots <= 1_000_000:
        return None
    return Refusal("INVALID_ARGUMENT", f"slots must be from 0 to 1000000, or none for no limit, not {slots}.")


def elect(ws: Workspace, command: Elect) -> Elected:
    """Gives a shared duty to the caller if it is free, expired or already the caller's."""
    leader = ws.find(Leader, command.name)
    longest_at = ws.now + LONGEST_TERM_MS * MILLISECOND
    if leader is not None and leader.owner != command.owner and ws.now < leader.expires_at <= longest_at:
        return Elected(leader.owner, False, leader.expires_at, -(-(leader.expires_at - ws.now) // MILLISECOND))
    ttl_ms = min(command.ttl_ms, LONGEST_TERM_MS)
    expires_at = ws.now + ttl_ms * MILLISECOND
    ws.put(Leader(command.name, command.owner, expires_at))
    return Elected(command.owner, True, expires_at, ttl_ms)


def why_waiting(job: Job, pool: Pool | None, occupied: int) -> WaitReason | None:
    """Why a queued job has not started: the first thing that has to change."""
    match job.place:
        case Parked(behind=str(behind)):
            return "equal_job" if behind != job.id else "tool_paused"
        case Parked() if job.place.is_held_back:
            return "tool_paused"
        case Parked(due_at=int()):
            return "schedule"
        case Parked():
            return "account_limit"
        case Ready() if pool is not None and job.spec.tool in pool.paused_tools:
            return "tool_paused"
        case Ready():
            return why_not_yet(pool, occupied)
        case _:
            return None


def why_not_yet(pool: Pool | None, occupied: int) -> WaitReason:
    """Why a ready job has not started."""
    if pool is not None and pool.paused:
        return "pool_paused"
    if pool is not None and pool.limit is not None and occupied >= pool.limit:
        return "pool_full"
    return "place"


def work_of(pool: Pool, *, occupied: int, running: int, ready: int) -> int:
    """Returns for how many jobs of a pool workers are needed now: those that workers hold, and the ready ones for which
    there is a slot. A job that a provider has takes a slot but no worker."""
    free = ready if pool.limit is None else max(0, pool.limit - occupied)
    return running + (0 if pool.paused else min(ready, free))


def wanted_workers(work: int, concurrency: int) -> int:
    """Returns how many workers, each with `concurrency` jobs at a time, that work takes."""
    return -(-work // concurrency)


def _needs_pool(wanted: Needs, command: DeclarePool | PausePool | ResizePool) -> None:
    wanted.pools.add(command.name)
    wanted.changed_pools.add(command.name)


def _needs_leader(wanted: Needs, command: Elect) -> None:
    wanted.find(Leader, command.name)


def _audit_declaration(command: DeclarePool, _: PoolChanged) -> Audited:
    return Audited("declare_pool", f"pool {command.name}", {"slots": command.slots})


def _audit_pause(command: PausePool, _: PoolChanged) -> Audited:
    return Audited("pause_pool" if command.paused else "resume_pool", f"pool {command.name}")


def _audit_resize(command: ResizePool, _: PoolChanged) -> Audited:
    return Audited("resize_pool", f"pool {command.name}", {"slots": command.resized})


RULES = (
    Rule(DeclarePool, decide=declare_pool, needs=_needs_pool, refuses=("INVALID_ARGUMENT",), audit=_audit_declaration),
    Rule(PausePool, decide=pause_pool, needs=_needs_pool, refuses=("NOT_FOUND",), audit=_audit_pause),
    Rule(
        ResizePool,
        decide=resize_pool,
        needs=_needs_pool,
        refuses=("INVALID_ARGUMENT", "NOT_FOUND"),
        audit=_audit_resize,
    ),
    Rule(Elect, decide=elect, needs=_needs_leader),
)
