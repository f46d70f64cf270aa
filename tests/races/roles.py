"""What the processes of a race do."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ficha import Ficha, Lease, Refused
from ficha.core.commands import Failed

Gate = Callable[[], Awaitable[None]]
"""Where a racer waits for the others."""
Told = dict[str, Any]
"""What a caller was told, and when it called and was answered, by the clock that all processes of a machine share."""


async def call(app: Ficha, gate: Gate, rounds: list[list[tuple[str, dict[str, Any]]]]) -> list[list[Told]]:
    """Makes the calls of each round at the same instant as the others make theirs."""
    told = []
    for calls in rounds:
        await gate()
        told.append(await asyncio.gather(*(_told(app, operation, arguments) for operation, arguments in calls)))
    return told


async def _told(app: Ficha, operation: str, arguments: dict[str, Any]) -> Told:
    called_at = time.monotonic_ns()
    try:
        answer = await (_FURTHER.get(operation) or getattr(Ficha, operation))(app, **arguments)
        said = {"answer": msgspec.to_builtins(answer)}
    except Refused as refused:
        said = {"refused": refused.code}
    return {"called": operation, **said, "at": (called_at, time.monotonic_ns())}


async def _complete(app: Ficha, job_id: str, epoch: int) -> Any:
    return await app.finish_job(job_id, app.completed({"images": 1}), epoch=epoch)


async def _fail(app: Ficha, job_id: str, epoch: int) -> Any:
    return await app.finish_job(job_id, Failed("the provider said no", final=True), epoch=epoch)


async def _call_back(app: Ficha, job_id: str) -> Any:
    return await app.finish_job(job_id, app.completed({"images": 1}))


async def _claim(app: Ficha, worker: str, limit: int) -> Any:
    return [lease.job_id for lease in await app.claim("default", limit=limit, worker=worker)]


_FURTHER: dict[str, Callable[..., Awaitable[Any]]] = {
    "complete": _complete,
    "fail": _fail,
    "call_back": _call_back,
    "claim": _claim,
}
"""What can be called by name beside the application's own methods: what JSON cannot say to those."""


async def claim_all(app: Ficha, gate: Gate, worker: str, limit: int) -> list[list[tuple[str, int, int]]]:
    """Claims until nothing is left: for each claim its jobs, as (job, epoch, the number in its payload)."""
    await gate()
    claims = []
    while True:
        leases = await app.claim("default", limit=limit, worker=worker)
        if leases:
            claims.append([(lease.job_id, lease.epoch, lease.payload["number"]) for lease in leases])
        elif await _ready(app, "default") == 0:
            return claims


async def _ready(app: Ficha, name: str) -> int:
    return next(pool.ready for pool in await app.pools() if pool.name == name)


async def occupy(app: Ficha, gate: Gate, worker: str, seed: int) -> list[tuple[str, int, int]]:
    """Claims, works on and ends jobs of the pool `gpu` until none is left.

    Returns (job, when its claim had returned, when its end was about to be asked for): for all of that time, and for
    longer, the job held a slot.
    """
    choice = random.Random(seed)
    held: list[tuple[str, int, int]] = []
    await gate()
    while True:
        leases = await app.claim("gpu", limit=choice.randint(1, 4), worker=worker)
        claimed_at = time.monotonic_ns()
        for lease in leases:
            await app.start(lease)
            end = choice.choice(_ENDS)
            if end is _after_provider:
                await app.accept(lease, f"provider-{lease.job_id}")
            ends_at = time.monotonic_ns()
            await end(app, lease)
            held.append((lease.job_id, claimed_at, ends_at))
        if not leases:
            if await _ready(app, "gpu") == 0:
                return held
            await app.wait_for_work("gpu", 0.005)


async def _finish(app: Ficha, lease: Lease) -> None:
    assert (await app.finish(lease, {"by": lease.worker})).changed


async def _fail_for_good(app: Ficha, lease: Lease) -> None:
    assert (await app.fail(lease, "the provider said no", final=True)).changed


async def _cancel(app: Ficha, lease: Lease) -> None:
    assert (await app.cancel(lease.job_id)).changed


async def _after_provider(app: Ficha, lease: Lease) -> None:
    assert (await app.finish_job(lease.job_id, app.completed({"by": "provider"}))).changed


_ENDS = (_finish, _fail_for_good, _cancel, _after_provider)
