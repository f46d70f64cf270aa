"""Random operations of every kind over a few accounts, and an observer that proves the invariants meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from ficha import Ficha, Lease, Refused, SubmitRequest
from ficha.core.commands import Failed
from ficha.core.invariants import overfull_pools, violations
from ficha.store.base import GetState
from tests.races.roles import Gate

ACCOUNTS = ("ana", "bo", "cy")
POOLS = ("gpu", "default")

EXPECTED = {
    "IDEMPOTENCY_MISMATCH",
    "INSUFFICIENT_CREDITS",
    "INVALID_STATE",
    "LEASE_LOST",
    "QUOTA_EXCEEDED",
}
"""What may be refused. Anything else, a conflict that nobody ran again for one, is an error that got out."""


async def meddle(app: Ficha, gate: Gate, seed: int, callers: int, operations: int) -> dict[str, int]:
    """Makes random calls from several callers at once, and tells how many of each kind."""
    meddler = Meddler(app, random.Random(seed))
    await gate()
    await asyncio.gather(*(meddler.run(operations) for _ in range(callers)))
    return meddler.called


async def observe(app: Ficha, gate: Gate, looks: int) -> list[str]:
    """Looks at the whole database while others change it; what is wrong, in sentences."""
    await gate()
    found: list[str] = []
    for _ in range(looks):
        state = await app.engine.store.read(GetState(texts=True))
        found += [*violations(state), *overfull_pools(state)]
    return found


class Meddler:
    """Somebody who does everything at random, with what the calls before have brought."""

    def __init__(self, app: Ficha, choice: random.Random) -> None:
        self.app = app
        self.choice = choice
        self.called: Counter[str] = Counter()
        self.leases: list[Lease] = []
        self.jobs: list[str] = []
        self.holds: list[str] = []
        self.batches: list[str] = []

    async def run(self, operations: int) -> None:
        names = list(OPERATIONS)
        weights = [weight for weight, _ in OPERATIONS.values()]
        for _ in range(operations):
            name = self.choice.choices(names, weights)[0]
            try:
                await OPERATIONS[name][1](self)
            except Refused as refused:
                if refused.code not in EXPECTED:
                    raise
            self.called[name] += 1

    @property
    def account(self) -> str:
        return self.choice.choice(ACCOUNTS)

    def request(self, **further: Any) -> SubmitRequest:
        tool = self.choice.choice(("draw", "paint", "read", "sketch", "print_images", "embed"))
        return SubmitRequest(tool=tool, payload={"number": self.choice.randint(1, 8)}, account=self.account, **further)

    async def submit(self, **further: Any) -> None:
        request = self.request(**further)
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        receipt = await self.app.submit(**fields)
        self.jobs.append(receipt.job_id)
        if receipt.batch_id is not None:
            self.batches.append(receipt.batch_id)

    async def submit_again(self) -> None:
        await self.submit(idempotency_key=f"key-{self.choice.randint(1, 20)}")

    async def submit_later(self) -> None:
        if self.choice.random() < 0.5:
            await self.submit(delay_s=0.02)
        else:
            await self.submit(run_at=datetime.now(UTC))

    async def submit_many(self) -> None:
        answers = await self.app.submit_many(self.request() for _ in range(self.choice.randint(2, 5)))
        self.jobs += [answer.job_id for answer in answers if not isinstance(answer, Refused)]

    async def submit_batch(self) -> None:
        items = [("draw", {"number": number}) for number in range(self.choice.randint(1, 6))]
        receipt = await self.app.submit_batch(items, account=self.account)
        assert receipt.batch_id is not None
        self.batches.append(receipt.batch_id)

    async def submit_reserved(self) -> None:
        """With a reservation that may be another account's, or used already by another caller."""
        if self.holds:
            hold = await self._hold(self.choice.choice(self.holds))
            receipt = await self.app.submit("read", account=hold.account, reservation=hold.id)
            self.jobs.append(receipt.job_id)

    async def _hold(self, hold_id: str) -> Any:
        page = await self.app.reservations(limit=1_000)
        return next(hold for hold in page.items if hold.id == hold_id)

    async def reserve(self) -> None:
        ttl_s = self.choice.choice((0.01, 60))
        self.holds.append((await self.app.reserve(self.account, ttl_s=ttl_s)).id)

    async def consume(self) -> None:
        if self.holds:
            await self.app.consume(self.choice.choice(self.holds))

    async def release(self) -> None:
        if self.holds:
            await self.app.release(self.choice.choice(self.holds))

    async def claim(self) -> None:
        pools = self.choice.choice((POOLS, POOLS[::-1], POOLS[:1], POOLS[1:]))
        self.leases += await self.app.claim(pools, limit=self.choice.randint(1, 4), worker=f"worker-{id(self)}")

    def lease(self, *, keep: bool = False) -> Lease | None:
        if not self.leases:
            return None
        index = self.choice.randrange(len(self.leases))
        # Now and then a lease is used again after the job's end.
        return self.leases[index] if keep or self.choice.random() < 0.1 else self.leases.pop(index)

    async def start(self) -> None:
        if (lease := self.lease(keep=True)) is not None:
            await self.app.start(lease)

    async def heartbeat(self) -> None:
        for answer in await self.app.heartbeat(self.leases):
            assert not isinstance(answer, Refused) or answer.code == "LEASE_LOST"

    async def checkpoint(self) -> None:
        if (lease := self.lease(keep=True)) is not None:
            await self.app.checkpoint(lease, "HALF", progress=50, data={"seen": self.choice.randint(1, 9)})

    async def save_step(self) -> None:
        if (lease := self.lease(keep=True)) is not None:
            await self.app.save_step(lease, self.choice.choice("ab"), self.choice.randint(1, 9))

    async def finish(self) -> None:
        if (lease := self.lease()) is not None:
            await self.app.finish(lease, {"images": 1})

    async def finish_partly(self) -> None:
        if (lease := self.lease()) is not None:
            await self.app.finish(lease, {"images": 1}, delivered=self.choice.randint(0, 2), of=3)

    async def finish_many(self) -> None:
        leases = [lease for lease in (self.lease() for _ in range(4)) if lease is not None]
        for answer in await self.app.finish_many((lease, {"images": 1}) for lease in leases):
            assert not isinstance(answer, Refused) or answer.code == "LEASE_LOST"

    async def fail(self) -> None:
        if (lease := self.lease()) is not None:
            await self.app.fail(lease, "the provider said no", final=self.choice.random() < 0.3)

    async def retry(self) -> None:
        if (lease := self.lease()) is not None:
            await self.app.retry(lease, self.choice.choice((0, 0.02)))

    async def give_up(self) -> None:
        if (lease := self.lease()) is not None:
            await self.app.give_up(lease, "not worth it")

    async def accept(self) -> None:
        if (lease := self.lease(keep=True)) is not None:
            await self.app.accept(lease, "provider-1")

    async def any_job(self) -> str | None:
        """A job of one's own, or of anybody."""
        if self.jobs and self.choice.random() < 0.5:
            return self.choice.choice(self.jobs)
        page = await self.app.jobs(statuses=("queued", "starting", "running"), limit=20)
        return self.choice.choice(page.items).id if page.items else None

    async def call_back(self) -> None:
        if (job_id := await self.any_job()) is not None:
            good = self.app.completed({"images": 1})
            await self.app.finish_job(job_id, self.choice.choice((good, Failed("no"), Failed("no", final=True))))

    async def cancel(self) -> None:
        if (job_id := await self.any_job()) is not None:
            await self.app.cancel(job_id)

    async def recover(self) -> None:
        if (job_id := await self.any_job()) is not None:
            await self.app.recover(job_id)

    async def read(self) -> None:
        if (job_id := await self.any_job()) is not None:
            await self.app.job(job_id)
        await self.app.account(self.account)
        await self.app.stats()

    async def cancel_batch(self) -> None:
        if self.batches:
            await self.app.cancel_batch(self.choice.choice(self.batches))

    async def resume_batch(self) -> None:
        if self.batches:
            await self.app.resume_batch(self.choice.choice(self.batches))

    async def requeue(self) -> None:
        if dead := (await self.app.dead_letters(limit=20)).items:
            self.jobs.append(await self.app.requeue(self.choice.choice(dead).id))

    async def discard(self) -> None:
        if dead := (await self.app.dead_letters(limit=20)).items:
            await self.app.discard(self.choice.choice(dead).id)

    async def grant(self) -> None:
        number = self.choice.randint(1, 50)
        await self.app.grant(self.account, 10 + number, key=f"payment-{number}")

    async def adjust(self) -> None:
        await self.app.adjust(self.account, self.choice.choice((-20, -5, 5)), reason="a correction")

    async def change_plan(self) -> None:
        await self.app.change_plan(self.account, self.choice.choice(("open", "pro", "team")))

    async def pause_pool(self) -> None:
        pool = self.choice.choice(POOLS)
        await self.app.pause_pool(pool)
        await self.app.resume_pool(pool)

    async def sweep(self) -> None:
        await self.app.sweep()


OPERATIONS: dict[str, tuple[int, Callable[[Meddler], Awaitable[None]]]] = {
    "submit": (14, Meddler.submit),
    "submit_again": (6, Meddler.submit_again),
    "submit_later": (3, Meddler.submit_later),
    "submit_many": (2, Meddler.submit_many),
    "submit_batch": (1, Meddler.submit_batch),
    "submit_reserved": (2, Meddler.submit_reserved),
    "reserve": (3, Meddler.reserve),
    "consume": (1, Meddler.consume),
    "release": (2, Meddler.release),
    "claim": (16, Meddler.claim),
    "start": (5, Meddler.start),
    "heartbeat": (4, Meddler.heartbeat),
    "checkpoint": (3, Meddler.checkpoint),
    "save_step": (3, Meddler.save_step),
    "finish": (10, Meddler.finish),
    "finish_partly": (2, Meddler.finish_partly),
    "finish_many": (2, Meddler.finish_many),
    "fail": (5, Meddler.fail),
    "retry": (2, Meddler.retry),
    "give_up": (1, Meddler.give_up),
    "accept": (2, Meddler.accept),
    "call_back": (3, Meddler.call_back),
    "cancel": (5, Meddler.cancel),
    "recover": (2, Meddler.recover),
    "read": (3, Meddler.read),
    "cancel_batch": (1, Meddler.cancel_batch),
    "resume_batch": (1, Meddler.resume_batch),
    "requeue": (2, Meddler.requeue),
    "discard": (1, Meddler.discard),
    "grant": (3, Meddler.grant),
    "adjust": (1, Meddler.adjust),
    "change_plan": (2, Meddler.change_plan),
    "pause_pool": (1, Meddler.pause_pool),
    "sweep": (2, Meddler.sweep),
}
"""Each with how often it is drawn."""
