"""An application in the middle of its work, and what must be so of every copy of its database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ficha import Ficha
from ficha.doctor import DoctorLimits, examine
from ficha.store.base import Store
from ficha.testing import ManualClock
from tests.support.shop import PLANS, POOLS, declare, shop
from tests.support.waiting import until

SECRET = "qPzR7mWk2vXb9nLs4tYc8hJd3gFa6eUi"  # noqa: S105 (of tests alone)


class BusyShop:
    """Jobs are submitted, run and ended without pause while the block runs; one stays with a worker, one parked."""

    def __init__(self, app: Ficha, held: str) -> None:
        self.app = app
        self.held = held
        """The job that a worker has all the time."""
        self.ended = 0

    async def goes_on(self) -> None:
        """Returns when more jobs have ended than so far."""
        before = self.ended
        await until(lambda: self.ended > before + 5)


@asynccontextmanager
async def busy_shop(url: str) -> AsyncIterator[BusyShop]:
    app = shop(url, secret=SECRET, sweep_s=3_600)
    async with app:
        await app.open_account("ana", plan="open", credits=100_000)
        await app.open_account("bob", plan="free", credits=100)
        held = await app.submit("upscale", {"image": "held"}, account="bob")
        await app.submit("upscale", {"image": "parked"}, account="bob")
        await app.claim("gpu", worker="long")
        busy = BusyShop(app, held.job_id)

        async def work() -> None:
            while True:
                await app.submit("embed_all", {"texts": ["x"]}, account="ana")
                for lease in await app.claim("cpu", worker="quick"):
                    await (app.fail(lease, "broken") if busy.ended % 7 == 3 else app.finish(lease, result=[]))
                    busy.ended += 1

        tasks = [asyncio.create_task(work()) for _ in range(2)]
        try:
            yield busy
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert await app.verify() == []


async def check_copy(url: str, store: Store, clock: ManualClock, held: str) -> None:
    """The copy is whole, and goes on: what ran at that moment is recovered when its lease is over, and ends once."""
    report = await examine(shop(url, secret=SECRET), DoctorLimits(overdue_s=1e9, sweeper_s=1e9))
    assert [one for one in report.findings if one.group in ("schema", "counters")] == []
    app = declare(Ficha(store=store, plans=PLANS, pools=POOLS, sweep_by_itself=False, sweep_s=3_600))
    async with app:
        assert await app.verify() == []
        assert (await app.job(held)).status == "starting"
        assert (await app.account("bob")).balance == 90
        await app.sweep()
        assert (await app.job(held)).status == "starting", "its lease still runs, though its worker is not here"
        clock.advance(120)
        await app.sweep()
        job = await app.job(held)
        assert (job.status, job.recoveries) == ("queued", 1)
        [lease] = await app.claim("gpu", worker="new")
        assert lease.job_id == held
        await app.finish(lease, result={"image": "done"})
        assert (await app.job(held)).status == "completed"
        [parked] = await app.claim("gpu", worker="new")
        await app.fail(parked, "no")
        assert (await app.account("bob")).balance == 95, "each is paid once, and refunded once"
        assert await app.verify() == []


def new_clock() -> ManualClock:
    return ManualClock(time.time_ns() // 1_000)
