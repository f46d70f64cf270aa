"""Brakes: an operator pauses a tool, or lets a tool or a pool take no more submits.

A claim reads its pool's row anyway, and that row names the paused tools. The jobs of a paused tool that a claim meets
are parked behind themselves, because a claim locks no account. `HoldBack` then parks them for the whole pause, so that
they count for nothing and no further claim sees them. What a claim costs does not depend on how many there are. After
every change all waiting jobs of the tool are looked at once (`settled`), by the caller or else by the sweeper.

A submit looks at the brakes of its tools and pools without locking them.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from .claim import is_paused
from .commands import Braked, CloseSubmits, HoldBack, NewJob, PauseTool, SettleTool
from .new_jobs import waiting_place
from .outcomes import BrakeChanged, HeldBack, Refusal
from .promote import promote
from .records import HELD_BACK_AT, WAITING, Brake, Parked, Ready
from .refusals import no_pool
from .rule import Audited, Needs, Rule
from .workspace import Workspace


def brake_name(kind: Braked, name: str) -> str:
    return f"{kind} {name}"


def look_at_brakes(wanted: Needs, jobs: Iterable[NewJob]) -> None:
    """Adds what `refuse_closed` reads for these jobs."""
    for tool, pool in {(job.spec.tool, job.spec.pool) for job in jobs}:
        wanted.look(Brake, f"tool {tool}", f"pool {pool}")


def refuse_closed(ws: Workspace, jobs: Iterable[NewJob]) -> Refusal | None:
    """The refusal, if a tool or a pool of these jobs takes no submits."""
    for tool, pool in dict.fromkeys((job.spec.tool, job.spec.pool) for job in jobs):
        if (refusal := closed(ws, "tool", tool) or closed(ws, "pool", pool)) is not None:
            return refusal
    return None


def closed(ws: Workspace, kind: Braked, name: str) -> Refusal | None:
    brake = ws.find(Brake, brake_name(kind, name))
    if brake is None or brake.closed is None:
        return None
    return Refusal(
        "TOOL_CLOSED",
        f"the {kind} {name} takes no jobs now: {brake.closed} Nothing was charged.",
        details={kind: name, "reason": brake.closed},
    )


def pause_tool(ws: Workspace, command: PauseTool) -> BrakeChanged:
    """Pauses a tool in all pools, because its jobs may be in the pool of an earlier release."""
    for name in command.pools:
        pool = ws.pool(name)
        if pool is not None and (command.tool in pool.paused_tools) is not command.paused:
            others = tuple(tool for tool in pool.paused_tools if tool != command.tool)
            tools = tuple(sorted((*others, command.tool))) if command.paused else others
            ws.put_pool(replace(pool, paused_tools=tools))
    known = ws.find(Brake, brake_name("tool", command.tool))
    before = known or Brake(brake_name("tool", command.tool), ws.now)
    if before.paused is command.paused:
        return BrakeChanged(known, changed=False)
    return _put(ws, known, replace(before, paused=command.paused, settled=False))


def settle_tool(ws: Workspace, command: SettleTool) -> BrakeChanged:
    known = ws.find(Brake, brake_name("tool", command.tool))
    if known is None or known.settled or (known.since_at, known.paused) != (command.since_at, command.paused):
        return BrakeChanged(known, changed=False)
    return _put(ws, known, replace(known, settled=True), since_at=known.since_at)


def close_submits(ws: Workspace, command: CloseSubmits) -> BrakeChanged | Refusal:
    if command.kind == "pool" and ws.pool(command.name) is None:
        return no_pool(command.name)
    name = brake_name(command.kind, command.name)
    known = ws.find(Brake, name)
    return _put(ws, known, replace(known or Brake(name, ws.now), closed=command.reason))


def _put(ws: Workspace, known: Brake | None, brake: Brake, since_at: int | None = None) -> BrakeChanged:
    if not brake.paused and brake.settled and brake.closed is None:
        if known is not None:
            ws.remove(known)
        return BrakeChanged(None, changed=known is not None)
    if brake != known:
        brake = replace(brake, since_at=ws.now if since_at is None else since_at)
        ws.put(brake)
    return BrakeChanged(brake, changed=brake != known)


def hold_back(ws: Workspace, command: HoldBack) -> HeldBack:
    job = ws.job(command.job_id)
    if job is None or not isinstance(job.place, WAITING) or job.spec.pool != command.pool:
        return HeldBack(changed=False)
    place = job.place
    is_behind_itself = isinstance(place, Parked) and place.behind == job.id
    if is_paused(ws.pool(command.pool), job):
        if isinstance(place, Ready) or is_behind_itself:
            ws.put_job(replace(job, place=Parked(place.rank, HELD_BACK_AT)))
            promote(ws, job.account_id)
            return HeldBack(changed=True)
    elif is_behind_itself or (isinstance(place, Parked) and place.is_held_back):
        # It counts for nothing while its place is found: as one behind itself, it would count against its own account.
        job = replace(job, place=Parked(place.rank, HELD_BACK_AT))
        ws.put_job(job)
        ws.put_job(replace(job, place=waiting_place(ws, job, ws.now)))
        return HeldBack(changed=True)
    return HeldBack(changed=False)


def _needs_tool(wanted: Needs, command: PauseTool) -> None:
    wanted.pools.update(command.pools)
    wanted.changed_pools.update(command.pools)
    wanted.find(Brake, brake_name("tool", command.tool))


def _needs_settled(wanted: Needs, command: SettleTool) -> None:
    wanted.find(Brake, brake_name("tool", command.tool))


def _needs_brake(wanted: Needs, command: CloseSubmits) -> None:
    if command.kind == "pool":
        wanted.pools.add(command.name)
    wanted.find(Brake, brake_name(command.kind, command.name))


def _needs_job(wanted: Needs, command: HoldBack) -> None:
    wanted.owned_jobs.add(command.job_id)
    wanted.pools.add(command.pool)


def _audit_pause(command: PauseTool, _: BrakeChanged) -> Audited:
    return Audited("pause_tool" if command.paused else "resume_tool", f"tool {command.tool}")


def _audit_close(command: CloseSubmits, _: BrakeChanged) -> Audited:
    act = f"{'open' if command.reason is None else 'close'}_{command.kind}"
    return Audited(act, f"{command.kind} {command.name}", {"reason": command.reason})


RULES = (
    Rule(PauseTool, decide=pause_tool, needs=_needs_tool, audit=_audit_pause),
    Rule(CloseSubmits, decide=close_submits, needs=_needs_brake, refuses=("NOT_FOUND",), audit=_audit_close),
    Rule(SettleTool, decide=settle_tool, needs=_needs_settled),
    Rule(HoldBack, decide=hold_back, needs=_needs_job),
)
