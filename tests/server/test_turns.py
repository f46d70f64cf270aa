"""Requests of one account take turns, so that another account's never waits for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from ficha import Ficha, JobContext
from ficha.server import usage
from ficha.server.answer_limits import in_steps
from ficha.server.identity import Caller
from ficha.server.settings import Settings
from ficha.server.usage import UnderWay, Usage
from ficha.store.memory import MemoryStore
from tests.engine.instrumented_store import InstrumentedStore
from tests.support.waiting import until

SECRET = "TgYQ3MvH0sTzB5kqjXw1c9fRrL8uZeNd"  # noqa: S105 (for the tests alone)
ANA = Caller(scope="user", account="ana", job=None, name="ana", key_id="k1")
OPERATOR = Caller(scope="service", account=None, job=None, name="operator", key_id="k2")


def begun(under_way: UnderWay, caller: Caller) -> Usage:
    usage = Usage(under_way)
    usage.begin(caller)
    return usage


async def test_so_many_requests_of_one_account_are_worked_on_at_a_time_in_the_order_they_came() -> None:
    under_way = UnderWay(Settings(secret=SECRET, account_turns=2))
    requests = [begun(under_way, ANA) for _ in range(5)]
    order: list[int] = []

    async def work(number: int) -> None:
        await requests[number].take_turn()
        order.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert order == [0, 1]
    requests[1].end()
    await until(lambda: order == [0, 1, 2])
    # Who stops waiting has taken nothing.
    tasks[3].cancel()
    requests[0].leave_turn()
    await until(lambda: order == [0, 1, 2, 4])
    assert requests[4].leave_turn()
    assert not requests[4].leave_turn()


async def test_an_account_that_kept_the_event_loop_for_long_rests_and_then_has_one_turn_at_a_time() -> None:
    under_way = UnderWay(Settings(secret=SECRET, account_turns=4))
    begun(under_way, ANA).spent(usage.LONG_STEP_S)
    requests = [begun(under_way, ANA) for _ in range(3)]
    rests_until = time.monotonic() + usage.RESTS * usage.LONG_STEP_S * 0.9
    order: list[int] = []

    async def work(number: int) -> None:
        await requests[number].take_turn()
        order.append(number)
        if number == 0:
            assert time.monotonic() >= rests_until

    tasks = [asyncio.create_task(work(number)) for number in range(3)]
    # Others do not wait for it.
    await begun(under_way, replace(ANA, account="bob")).take_turn()
    assert order == []
    await tasks[0]
    assert order == [0]
    # Who stops waiting has taken nothing.
    tasks[1].cancel()
    requests[0].leave_turn()
    await tasks[2]
    assert order == [0, 2]
    requests[2].leave_turn()


async def test_a_short_step_costs_no_rest() -> None:
    under_way = UnderWay(Settings(secret=SECRET, account_turns=2))
    begun(under_way, ANA).spent(usage.LONG_STEP_S * 0.99)
    requests = [begun(under_way, ANA) for _ in range(2)]
    for request in requests:
        await request.take_turn()
    assert all(request.leave_turn() for request in requests)


async def test_each_step_of_a_request_is_timed() -> None:
    told: list[float] = []

    async def request() -> None:
        time.sleep(0.02)  # noqa: ASYNC251 (it is what is measured)
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        raise ValueError("the request's own")

    with pytest.raises(ValueError, match="the request's own"):
        await in_steps(request(), told.append)
    assert told[0] >= 0.02
    assert len(told) == 3

    waiting = asyncio.create_task(_forever(told))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(told) == 5


async def _forever(told: list[float]) -> None:
    async def request() -> None:
        await asyncio.Event().wait()

    await in_steps(request(), told.append)


async def test_service_and_admin_keys_wait_for_no_turn() -> None:
    under_way = UnderWay(Settings(secret=SECRET, account_turns=1))
    for _ in range(5):
        await asyncio.wait_for(begun(under_way, OPERATOR).take_turn(), 10)


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[tuple[Ficha, InstrumentedStore, dict[str, httpx.AsyncClient]]]:
    """An application whose commits can be held, and a client for each of two accounts. Nobody rests: on a busy machine
    any step of a request may take long."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(usage, "LONG_STEP_S", float("inf"))
        async with _served(**settings) as running:
            yield running


@asynccontextmanager
async def _served(**settings: Any) -> AsyncIterator[tuple[Ficha, InstrumentedStore, dict[str, httpx.AsyncClient]]]:
    store = InstrumentedStore(MemoryStore())
    app = Ficha(store=store, sweep_by_itself=False)

    @app.tool
    async def note(job: JobContext) -> None: ...

    async with app:
        clients = {}
        for name in ("ana", "bob"):
            await app.open_account(name)
            key = (await app.create_api_key(name, account=name)).secret
            clients[name] = httpx.AsyncClient(
                transport=httpx.ASGITransport(app.asgi(Settings(secret=SECRET, **settings))),
                base_url="http://127.0.0.1",
                headers={"Authorization": f"Bearer {key}"},
            )
        # One server for both: the turns are those of a process.
        clients["bob"]._transport = clients["ana"]._transport
        yield app, store, clients
        store.gate.set()
        for client in clients.values():
            await client.aclose()


def waiting(app: Ficha, account: str) -> int:
    """Submits that have come as far as the committer."""
    return app.engine._committers[0]._waiting.weight_of(account)


async def test_a_flood_of_one_account_leaves_the_others_their_turn() -> None:
    async with served(account_turns=3) as (app, store, clients):
        first = await clients["ana"].post("/api/jobs", json={"tool": "note"})
        assert first.status_code == 201
        store.gate.clear()
        groups = store.groups
        held = asyncio.create_task(clients["ana"].post("/api/jobs", json={"tool": "note"}))
        await store.until(lambda: store.groups == groups + 1)
        flood = [asyncio.create_task(clients["ana"].post("/api/jobs", json={"tool": "note"})) for _ in range(20)]
        await until(lambda: waiting(app, "ana") == 2)
        other = asyncio.create_task(clients["bob"].post("/api/jobs", json={"tool": "note"}))
        await until(lambda: waiting(app, "bob") == 1)
        # One of the account's three turns is in the group that is held.
        assert waiting(app, "ana") == 2
        store.gate.set()
        answers = await asyncio.gather(held, other, *flood)
        assert {answer.status_code for answer in answers} == {201}


@pytest.mark.parametrize("turns", [1, 2])
async def test_who_waits_for_a_jobs_end_gives_up_the_turn(turns: int) -> None:
    async with served(account_turns=turns) as (app, _, clients):
        waits = [
            asyncio.create_task(clients["ana"].post("/api/jobs", json={"tool": "note"}, headers={"Prefer": "wait=30"}))
            for _ in range(turns + 1)
        ]
        leases = []
        while len(leases) < turns + 1:
            leases += await app.claim("default", limit=10, worker="w1")
            await asyncio.sleep(0)
        assert (await clients["ana"].get("/api/account")).status_code == 200
        await app.finish_many((lease, None) for lease in leases)
        assert [(await wait).json()["status"] for wait in waits] == ["completed"] * (turns + 1)


async def test_a_body_that_arrives_slowly_keeps_no_turn() -> None:
    async with served(account_turns=1) as (_, _, clients):
        arrives = asyncio.Event()
        is_asked = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b'{"tool":'
            is_asked.set()
            await arrives.wait()
            yield b' "note"}'

        json = {"Content-Type": "application/json"}
        sent = asyncio.create_task(clients["ana"].post("/api/jobs", content=slow(), headers=json))
        await is_asked.wait()
        assert (await clients["ana"].get("/api/account")).status_code == 200
        arrives.set()
        assert (await sent).status_code == 201
