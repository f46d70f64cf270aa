"""Claim: the best ready jobs of the pools a worker serves, as leases, never beyond a pool's slots."""

from __future__ import annotations

from . import moves
from .commands import Claim
from .outcomes import Claimed, Lease, Refusal
from .records import Leased
from .refusals import no_pool
from .workspace import Workspace


def claim(ws: Workspace, command: Claim) -> Claimed | Refusal:
    for name in command.pools:
        if ws.pool(name) is None:
            return no_pool(name)
    leases: list[Lease] = []
    pools = _open_pools(ws, command.pools)
    while len(leases) < command.limit:
        job = ws.next_ready(pools)
        if job is None:
            break
        job = moves.claimed(job, command.worker, ws.now, ws.policy.lease_ms)
        ws.put_job(job)
        ws.add_event(job, "claimed", worker=command.worker, epoch=job.epoch)
        held = job.place
        assert isinstance(held, Leased)
        leases.append(Lease(job, ws.payload(job.id), held.worker, job.epoch, held.expires_at, held.deadline_at))
        if not _has_slot(ws, job.pool):
            pools = _open_pools(ws, pools)
    return Claimed(tuple(leases))


def _open_pools(ws: Workspace, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if _has_slot(ws, name))


def _has_slot(ws: Workspace, name: str) -> bool:
    pool = ws.pool(name)
    assert pool is not None
    return not pool.paused and (pool.limit is None or ws.occupied(name) < pool.limit)
