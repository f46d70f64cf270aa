"""Pages of lists: what they leave out unless it is asked for, and how large they are at most."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from ficha import Ficha, InvalidArgument, JobView, LeaseName, Limits, Page
from ficha.engine import queries
from ficha.engine.views import PageFiller
from ficha.store.base import GetJobs, ListJobs, Query
from tests.support.shop import World, claim_one

pytestmark = pytest.mark.long_on("postgresql")

Ask = Callable[..., Awaitable[Page[Any]]]


async def walked(ask: Ask, most_bytes: int, cursor: str = "after") -> list[Any]:
    """All items, page by page; each page is as small as it has to be, and none is empty before the end."""
    items: list[Any] = []
    after: dict[str, Any] = {}
    while True:
        page = await ask(limit=1_000, **after)
        assert len(page.items) == 1 or len(msgspec.json.encode(page.items)) <= most_bytes
        items += page.items
        if page.next is None:
            return items
        assert page.items
        after = {cursor: page.next}


async def running(app: Ficha, **payload: Any) -> JobView:
    """A job with something in each of its texts."""
    job_id = (await app.submit("anything", payload, account="ana")).job_id
    lease = await claim_one(app, "cpu")
    await app.start(lease)
    await app.checkpoint(lease, "HALF", data={"page": 3})
    await app.report(lease, partial={"part": 1})
    return await app.job(job_id)


async def asked_while(app: Ficha, ask: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch) -> list[type]:
    asked: list[type] = []
    read = app.engine.store.read

    async def noted(query: Query[Any]) -> Any:
        asked.append(type(query))
        return await read(query)

    with monkeypatch.context() as patched:
        patched.setattr(app.engine.store, "read", noted)
        await ask()
    return asked


async def test_a_list_leaves_out_what_may_be_large(app: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await running(app, image="x")
    for ask in (app.jobs, lambda: app.jobs(statuses=["running"]), lambda: app.jobs(account="ana")):
        [listed] = (await ask()).items
        told = msgspec.json.decode(msgspec.json.encode(listed))
        whole = msgspec.json.decode(msgspec.json.encode(job))
        assert whole.keys() - told.keys() == {"payload", "result", "resume_data", "partial"}
        assert all(whole[name] == told[name] for name in told.keys() - {"waited_in_queue"})
        for name in ("payload", "result", "resume_data", "partial"):
            with pytest.raises(AttributeError, match=f"{name} was left out of this list"):
                getattr(listed, name)
        asked = await asked_while(app, ask, monkeypatch)
        assert (ListJobs in asked, GetJobs in asked) == (True, False), "the texts are not even read"


async def test_a_list_has_what_is_asked_for(app: Ficha) -> None:
    job = await running(app, image="x")
    [listed] = (await app.jobs(include=["payload", "partial"])).items
    assert (listed.payload, listed.partial) == ({"image": "x"}, {"part": 1})
    assert msgspec.json.decode(msgspec.json.encode(listed)).keys().isdisjoint({"result", "resume_data"})
    [listed] = (await app.jobs(include=("payload", "result", "resume_data", "partial"))).items
    assert msgspec.structs.replace(listed, waited_in_queue=job.waited_in_queue) == job


async def test_dead_letters_and_stuck_jobs_have_it_too(world: World) -> None:
    app = await world.open(lease_s=3_600, stuck_s=600)
    await app.open_account("ana", plan="open", credits=100)
    await running(app, image="stuck")
    await app.submit("anything", {"image": "dead"}, account="ana")
    await app.fail(await claim_one(app, "cpu"), "no")
    world.clock.advance(601)
    for ask, image in ((app.stuck, "stuck"), (app.dead_letters, "dead")):
        [listed] = (await ask()).items
        with pytest.raises(AttributeError):
            listed.payload  # noqa: B018
        [listed] = (await ask(include=["payload"])).items
        assert listed.payload == {"image": image}


@pytest.mark.parametrize("include", ["payload", ["nothing"], [1], None, 7])
async def test_what_cannot_be_included_is_refused(app: Ficha, include: Any) -> None:
    for ask in (app.jobs, app.stuck, app.dead_letters):
        with pytest.raises(InvalidArgument, match="include must be a list of payload, result, resume_data, partial"):
            await ask(include=include)


def test_a_page_is_full_to_the_byte() -> None:
    items = ["a" * 10] * 5
    whole = len(msgspec.json.encode(items))
    for most, fit in ((whole, 5), (whole - 1, 4), (1, 1)):
        filler = PageFiller[str](most)
        assert [filler.add(item) for item in items[:fit]] == [True] * fit
        assert filler.page(10, str) == Page(items[:fit], None), "the list has ended"
        assert filler.page(fit, str).next == items[0], "it has as many as were asked for"
        if fit < 5:
            assert not filler.add(items[0])
            assert filler.page(10, str) == Page(items[:fit], items[0]), "there is more"


MOST = 20_000


@pytest.fixture
async def small(world: World) -> Ficha:
    """The shop with small pages."""
    app = await world.open(limits=Limits(page_bytes=MOST))
    await app.open_account("ana", plan="open", credits=1_000)
    return app


async def test_a_page_of_jobs_ends_where_it_would_be_too_large(small: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "TEXTS_AT_ONCE", 3)
    sizes = [10, 30_000, 10, 6_000, 6_000, 6_000, 19_000, 10, 10, 25_000]
    ids = [(await small.submit("anything", {"a": "x" * size}, account="ana")).job_id for size in sizes]
    found = await walked(lambda **page: small.jobs(include=["payload"], **page), MOST)
    assert [job.id for job in found] == ids[::-1]
    assert [len(job.payload["a"]) for job in found] == sizes[::-1]
    page = await small.jobs(include=["payload"], limit=3)
    assert (len(page.items), page.next) == (1, ids[-1]), "the next would be too much"
    asked = await asked_while(small, lambda: small.jobs(include=["payload"], limit=1_000), monkeypatch)
    assert asked.count(GetJobs) == 1, "no more is read than a page holds"
    assert [job.id for job in await walked(small.jobs, MOST)] == ids[::-1]


async def test_every_list_is_bounded_in_bytes(small: Ficha) -> None:
    words = "w" * 3_000
    for number in range(12):
        await small.grant("ana", 1, reason=words)
        await small.acting("ops").grant("ana", 1, reason=words)
        await small.open_account(f"{number:02}" + "n" * 200, plan="open")
        await small.create_api_key("k" * 200 + str(number), scope="service")
    job = await running(small)
    for number in range(12):
        await small.note(LeaseName(job.id, job.epoch), f"{number} {words}")
    entries = await walked(lambda **page: small.ledger("ana", **page), MOST, cursor="before")
    assert [entry.number for entry in entries] == list(range(len(entries), 0, -1))
    assert len(entries) >= 25
    lines = await walked(small.audit, MOST)
    numbers = [line.number for line in lines]
    assert numbers == sorted(set(numbers), reverse=True)
    assert len(lines) >= 12
    assert len(await walked(small.accounts, MOST)) == 13
    assert len(await walked(small.api_keys, MOST)) == 12
    for of in ({"job": job.id}, {"account": "ana"}):
        events: list[Any] = []
        parts = 0
        while page := await small.events(limit=1_000, after=events[-1].number if events else 0, **of):
            assert len(page) == 1 or len(msgspec.json.encode(page)) <= MOST
            events += page
            parts += 1
        logged = [event.data["text"] for event in events if event.kind == "log"]
        assert (logged, parts > 1) == ([f"{number} {words}" for number in range(12)], True)
