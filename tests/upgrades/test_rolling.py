"""A rolling upgrade and the way back: both releases at work on one database, under load, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from ficha import Ficha
from tests.support.server_process import NO_TLS
from tests.support.waiting import until
from tests.upgrades.conftest import Open
from tests.upgrades.later_release import number_of, texts, with_later
from tests.upgrades.releases import ROOT, Release, copied, previous, unpack

pytestmark = pytest.mark.req("B11")

CREDITS = 1_000_000
COST = 3


# In one process: the present code is the older release, and with a migration more the newer one.


class Life:
    """An application of one release, which makes and works off jobs until it is told to stop."""

    def __init__(self, app: Ficha) -> None:
        self.app = app
        self.done = 0
        self._stops = False

    async def live(self) -> None:
        while not self._stops:
            await self.app.submit("draw", account="ana")
            for lease in await self.app.claim("default", worker=f"w-{id(self)}", limit=3):
                await self.app.finish(lease, {"ok": True})
                self.done += 1

    async def lived(self, more: int = 3) -> None:
        """Waits until it has done some more."""
        before = self.done
        await until(lambda: self.done >= before + more)

    @classmethod
    @asynccontextmanager
    async def of(cls, app: Ficha) -> AsyncIterator[Life]:
        app.tool(name="draw", cost=COST)(lambda job: None)
        async with app:
            life = cls(app)
            living = asyncio.create_task(life.live())
            try:
                yield life
            finally:
                life._stops = True
                await living


@pytest.mark.req("B11")
async def test_two_releases_live_side_by_side_while_the_schema_goes_up_and_down(release: Open) -> None:
    last = number_of(release())
    await release().migrate()
    async with Ficha(store=release(), sweep_by_itself=False) as app:
        await app.open_account("ana", credits=CREDITS)

    def old() -> Ficha:
        return Ficha(store=release())

    def new() -> Ficha:
        return Ficha(store=with_later(release()))

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Life.of(old()))
        await first.lived()
        await with_later(release()).migrate()
        await first.lived()
        async with Life.of(old()) as restarted, Life.of(new()) as newer:
            await asyncio.gather(first.lived(), restarted.lived(), newer.lived())
            await stack.aclose()
    async with Life.of(new()) as alone:
        await alone.lived()
    async with Life.of(old()) as back:
        await back.lived()
        await with_later(release()).migrate(last - 1)
        await back.lived()
    done = sum(life.done for life in (first, restarted, newer, alone, back))
    async with Ficha(store=release(), sweep_by_itself=False) as app:
        app.tool(name="draw", cost=COST)(lambda job: None)
        while leases := await app.claim("default", worker="last", limit=100):
            for lease in leases:
                await app.finish(lease)
                done += 1
        assert (await app.account("ana")).balance == CREDITS - COST * done
        assert await app.verify() == []


# In processes: servers and workers of the release before, from git.


class Load:
    """Callers of one server, each with one job at a time. Every refusal and every wrong end is noted."""

    def __init__(self, url: str, token: str, ended: dict[int, str], wrong: list[str], callers: int = 6) -> None:
        self._url = url
        self._token = token
        self._ended = ended
        self._wrong = wrong
        self._callers = callers
        self._stops = False
        self.done = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Load]:
        headers = {"Authorization": f"Bearer {self._token}", "Prefer": "wait=20"}
        limits = httpx.Limits(max_connections=self._callers)
        async with httpx.AsyncClient(
            base_url=self._url, headers=headers, timeout=60, trust_env=False, verify=NO_TLS, limits=limits
        ) as client:
            calling = [asyncio.create_task(self._call(client)) for _ in range(self._callers)]
            try:
                yield self
            finally:
                # As a load balancer does: first no more requests, then the server is stopped.
                self._stops = True
                await asyncio.gather(*calling)

    async def _call(self, client: httpx.AsyncClient) -> None:
        while not self._stops:
            number = len(self._ended)
            self._ended[number] = "asked"
            body = {"tool": "draw", "payload": {"n": number}, "account": "ana", "idempotency_key": f"n-{number}"}
            answer = await client.post("/api/jobs", json=body)
            if answer.status_code != 201:
                self._wrong.append(f"submit of {number}: {answer.status_code} {answer.text}")
                continue
            job = answer.json()["job"]
            while job["status"] not in ("completed", "failed"):
                answer = await client.get(f"/api/jobs/{job['id']}")
                if answer.status_code != 200:
                    self._wrong.append(f"look at {number}: {answer.status_code} {answer.text}")
                    break
                job = answer.json()
            self._ended[number] = job["status"]
            self.done += 1

    async def done_more(self, jobs: int) -> None:
        before = self.done
        await until(lambda: self.done >= before + jobs or self._wrong, within_s=100)
        assert self._wrong == []


@pytest.mark.req("B11")
@pytest.mark.long
@pytest.mark.timeout(900)
async def test_the_release_before_works_on_the_new_schema_beside_the_new_one_and_back(url: str, tmp_path: Path) -> None:
    before = Release(unpack(previous(), tmp_path / "before"), tmp_path / "old", url)
    after = Release(ROOT / "src", tmp_path / "new", url)
    if after.newest == before.newest:
        # Nothing has been added yet since releases know ranges: the next release adds something of every kind.
        source = copied(tmp_path / "after")
        for kind in ("sqlite", "postgres"):
            for way, text in zip(("up", "down"), texts(kind), strict=True):
                file = f"{before.newest + 1:04}_later.{way}.sql"
                (source / "ficha/store" / kind / "migrations" / file).write_text(text)
        after = Release(source, tmp_path / "new", url)
    assert after.newest > before.newest
    await rolled(before, after, jobs=60)


async def rolled(before: Release, after: Release, jobs: int) -> None:
    """Both releases at work, one after the other, and back again; in every state so many jobs are done."""
    before.command("migrate", "up")
    before.command("account", "create", "ana", "--plan", "open", "--credits", str(CREDITS))
    token = before.command("apikey", "create", "tests", "--scope", "service").split()[0]
    ended: dict[int, str] = {}
    wrong: list[str] = []

    def load(address: str) -> Load:
        return Load(address, token, ended, wrong)

    async with AsyncExitStack() as old_ones:
        old_ones.enter_context(before.worker("old-worker"))
        address = old_ones.enter_context(before.server("old-server"))
        first = await old_ones.enter_async_context(load(address)())
        await first.done_more(jobs)
        migrating = asyncio.create_task(asyncio.to_thread(after.command, "migrate", "up"))
        await first.done_more(jobs)
        await migrating
        await first.done_more(jobs)
        # A process of the older release that starts on the newer schema.
        with before.worker("old-worker-restarted"), before.server("old-server-restarted") as address:
            async with load(address)() as restarted:
                await restarted.done_more(jobs)
        async with AsyncExitStack() as new_ones:
            new_ones.enter_context(after.worker("new-worker"))
            address = new_ones.enter_context(after.server("new-server"))
            second = await new_ones.enter_async_context(load(address)())
            await asyncio.gather(first.done_more(jobs), second.done_more(jobs))
            await old_ones.aclose()
            await second.done_more(jobs)
            # And back.
            with before.worker("old-worker-again"), before.server("old-server-again") as address:
                async with load(address)() as third:
                    await asyncio.gather(second.done_more(jobs), third.done_more(jobs))
                    await new_ones.aclose()
                    await third.done_more(jobs)
                    down = ("migrate", "down", "--yes", "--to", str(before.newest))
                    migrating = asyncio.create_task(asyncio.to_thread(after.command, *down))
                    await third.done_more(jobs)
                    await migrating
                    await third.done_more(jobs)
    assert wrong == []
    assert ended == {number: "failed" if number % 5 == 3 else "completed" for number in ended}
    assert "all is well" in before.command("verify")
    paid = COST * sum(end == "completed" for end in ended.values())
    assert f"{CREDITS - paid}" in before.command("account", "show", "ana", "--json")
