"""Leases: what a worker does. Every word about a job carries the lease's epoch; a lost lease is refused."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import json

from .. import arguments as arg
from ..core import commands as c
from ..core.outcomes import Claimed, Finished, Held, StepSaved
from ..engine.views import Lease, moment
from ..refused import Refused
from .base import Operations


class Leases(Operations):
    async def claim(self, pools: str | Sequence[str], *, limit: int = 1, worker: str) -> list[Lease]:
        """Takes up to `limit` ready jobs, best rank first. An empty list means that there is nothing to do now."""
        command = c.Claim(
            arg.name(worker, "a worker"),
            arg.names(pools, "pool"),
            arg.count(limit, "limit", self.limits.claim_jobs),
        )
        return [Lease(lease) for lease in (await self._ask(command, Claimed)).leases]

    def work_heard(self, pools: str | Sequence[str]) -> int:
        """What to pass to `wait_for_work` as `since`, taken before the claim that found nothing."""
        return self.engine.wakeups.heard(arg.names(pools, "pool"))

    async def wait_for_work(self, pools: str | Sequence[str], timeout_s: float, *, since: int | None = None) -> bool:
        """Returns when one of the pools may have work (True), or the time is up: then look anyway."""
        return await self.engine.wakeups.wait(arg.names(pools, "pool"), timeout_s, since)

    async def start(self, lease: Lease) -> datetime:
        """Says that the handler begins; returns when the lease ends."""
        return moment((await self._ask(c.Start(lease.job_id, lease.epoch), Held)).expires_at)

    async def heartbeat(self, leases: Lease | Iterable[Lease]) -> list[datetime | Refused]:
        """Extends leases. In the place of one that was lost stands the exception that says so."""
        held = [leases] if isinstance(leases, Lease) else list(leases)
        answers = await self._ask_many([c.Heartbeat(lease.job_id, lease.epoch) for lease in held], Held)
        return [answer if isinstance(answer, Refused) else moment(answer.expires_at) for answer in answers]

    async def checkpoint(self, lease: Lease, name: str, *, progress: int = 0, data: Any = None) -> datetime:
        """Stores where the job can go on from, with its data, in one act; returns when the lease ends."""
        text = arg.json({} if data is None else data, "the checkpoint's data", self.limits.result_bytes, self.limits)
        command = c.SaveCheckpoint(
            lease.job_id, lease.epoch, arg.name(name, "a checkpoint"), arg.percent(progress), text
        )
        return moment((await self._ask(command, Held)).expires_at)

    async def save_step(self, lease: Lease, name: str, result: Any) -> Any:
        """Stores a step's result and returns it, or the one stored before under that name."""
        text = arg.json(result, "the step's result", self.limits.result_bytes, self.limits)
        command = c.SaveStep(lease.job_id, lease.epoch, arg.name(name, "a step"), text)
        return json.decode((await self._ask(command, StepSaved)).result)

    async def steps(self, job_id: str) -> dict[str, Any]:
        """The stored results of a job's steps, by name."""
        return {step.name: json.decode(step.result) for step in await self.queries.steps(arg.job_id(job_id))}

    async def finish(
        self, lease: Lease, result: Any = None, *, delivered: int | None = None, of: int | None = None
    ) -> Finished:
        """Completes a job. With `delivered` of `of` (3 of 4 images), what was not delivered is refunded."""
        return await self._finish(lease, self.completed(result, delivered, of))

    async def finish_many(self, finished: Iterable[tuple[Lease, Any]]) -> list[Finished | Refused]:
        """Completes many jobs, each with its result."""
        commands = [
            c.Finish(lease.job_id, self.completed(result), lease.epoch, account_id=lease.account)
            for lease, result in finished
        ]
        return await self._ask_many(commands, Finished)

    def completed(self, result: Any, delivered: int | None = None, of: int | None = None) -> c.Completed:
        """The ending of a run that worked, checked."""
        if of is not None:
            arg.count(of, "of", 2**31)
        if delivered:
            arg.count(delivered, "delivered", 2**31)
        return c.Completed(arg.json(result, "the result", self.limits.result_bytes, self.limits), delivered, of)

    async def fail(self, lease: Lease, error: str, *, final: bool = False) -> Finished:
        """Says that the run failed: retried while the tool has attempts left (unless `final`), else failed and
        refunded."""
        return await self._finish(lease, c.Failed(arg.text(error), final))

    async def retry(self, lease: Lease, after_s: float, *, reason: str | None = None) -> Finished:
        """Puts the job back for a while; it does not count as a failure."""
        words = None if reason is None else arg.text(reason)
        return await self._finish(lease, c.RetryLater(arg.milliseconds(after_s, "after_s"), words))

    async def accept(self, lease: Lease, ref: str) -> Finished:
        """Says that an external provider has the work: the job keeps its slot, the worker is free."""
        return await self._finish(lease, c.AcceptedByProvider(arg.name(ref, "a provider's reference")))

    async def give_up(self, lease: Lease, reason: str) -> Finished:
        """Cancels the job from inside its run, with a refund."""
        return await self._finish(lease, c.CancelledByHandler(arg.text(reason)))

    async def _finish(self, lease: Lease, ending: c.Ending) -> Finished:
        jitter = random.random()  # noqa: S311 (jitter, not a secret)
        return await self._ask(c.Finish(lease.job_id, ending, lease.epoch, jitter, lease.account), Finished)

    async def finish_job(self, job_id: str, ending: c.Ending, *, epoch: int | None = None) -> Finished:
        """How a run ended, by job id: for call-backs that prove themselves otherwise than by a lease."""
        checked = None if epoch is None else arg.epoch(epoch)
        jitter = random.random()  # noqa: S311 (jitter, not a secret)
        return await self._ask(c.Finish(arg.job_id(job_id), ending, checked, jitter), Finished)
