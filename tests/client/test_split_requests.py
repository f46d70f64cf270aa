"""A request that its tool splits is one job over HTTP too: for the clients, the command and whoever reads the JSON."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import pytest

from ficha import JobView, Receipt
from ficha.cli.watch import watched
from ficha.client import AsyncClient, Client
from tests.support.server_process import Served

pytestmark = pytest.mark.req("D6")

TEXTS = {"texts": [*"abcdefgh"]}


def parts_of(job: JobView) -> list[str]:
    assert job.parts is not None
    return [part.id for part in job.parts]


def finish(server: Served, job_id: str, result: Any) -> None:
    with server.client(server.service) as worker:
        told = worker.post("/api/worker/finish", json={**server.take(job_id), "outcome": "completed", "result": result})
        assert told.status_code == 200, told.text


def submitted(server: Served, name: str) -> tuple[str, Receipt, list[str]]:
    """A key, what it submitted, and the ids of the parts."""
    key = server.account(name, plan="single")
    with Client(server.url, key) as me:
        receipt = me.submit("embed_all", TEXTS)
        assert (receipt.jobs, receipt.cost) == (2, 16)
        return key, receipt, parts_of(me.job(receipt.job_id))


def test_submit_and_wait_returns_every_result(server: Served, name: str) -> None:
    """A plan with one active job may order it."""
    with Client(server.url, server.account(name, plan="single")) as me, ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(me.submit_and_wait, "embed_all", TEXTS, idempotency_key="k", timeout_s=60)
        receipt = me.submit("embed_all", TEXTS, idempotency_key="k")
        active = me.active_job()
        assert active is not None
        assert active.id == receipt.job_id
        for number, job_id in enumerate(parts_of(active)):
            assert not waiting.done()
            finish(server, job_id, [number])
        done = waiting.result(60)
        assert (done.id, done.status, done.result, done.delivered) == (receipt.job_id, "completed", [[0], [1]], 8)
        assert me.account().balance == 84


async def test_a_stream_tells_of_the_request_until_its_last_part_ends(server: Served, name: str) -> None:
    key, receipt, (first, second) = await asyncio.to_thread(submitted, server, name)
    told: list[JobView] = []
    async with AsyncClient(server.url, key) as mine, aclosing(mine.watch(second)) as updates:
        async for update in updates:
            assert isinstance(update, JobView)
            if not told:
                await asyncio.to_thread(finish, server, second, ["second"])
            elif update.progress == 50 and told[-1].progress != 50:
                await asyncio.to_thread(finish, server, first, ["first"])
            told.append(update)
    assert {update.id for update in told} == {receipt.job_id}
    assert any(update.partial == [None, ["second"]] for update in told)
    assert (told[-1].status, told[-1].result) == ("completed", [["first"], ["second"]])


@pytest.mark.parametrize("by", ["part", "batch"])
def test_one_cancel_ends_the_open_parts(server: Served, name: str, by: str) -> None:
    key, receipt, (first, second) = submitted(server, name)
    finish(server, first, ["first"])
    assert receipt.batch_id is not None
    with Client(server.url, key) as me:
        cancelled = me.cancel(second if by == "part" else receipt.batch_id)
        assert (cancelled.job_id, cancelled.changed, cancelled.refunded) == (receipt.job_id, True, 8)
        for job_id in (receipt.job_id, first, second, receipt.batch_id):
            job = me.job(job_id)
            assert (job.id, job.status, job.delivered, job.units) == (receipt.job_id, "completed", 4, 8)
            assert (job.charged, job.refunded, job.result) == (16, 8, [["first"], None])
        assert me.account().balance == cancelled.new_balance == 92


def test_prefer_wait_answers_with_the_whole(server: Served, name: str) -> None:
    _, receipt, parts = submitted(server, name)
    for number, part in enumerate(parts):
        finish(server, part, [number])
    with server.client(server.account(f"{name}-2")) as user:
        sent = user.post("/api/jobs", json={"tool": "embed_all", "payload": TEXTS}, headers={"Prefer": "wait=0"}).json()
        assert (sent["job"]["id"], sent["job"]["units"], len(sent["job"]["parts"])) == (sent["job_id"], 8, 2)
        refused = user.get(f"/api/jobs/{receipt.batch_id}")
        assert (refused.status_code, refused.json()["code"]) == (404, "NOT_FOUND")
        assert receipt.batch_id in refused.json()["detail"]
        assert receipt.job_id not in refused.text


def test_a_token_for_a_part_shows_the_request(server: Served, name: str) -> None:
    key, receipt, parts = submitted(server, name)
    for job_id in (*parts, str(receipt.batch_id)):
        with Client(server.url, key) as me, server.client(me.job_token(job_id).token) as page:
            assert page.get(f"/api/jobs/{job_id}").json()["id"] == receipt.job_id


async def test_the_command_watches_the_request(server: Served, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    key, receipt, parts = await asyncio.to_thread(submitted, server, name)
    async with AsyncClient(server.url, key) as mine:
        watching = asyncio.create_task(watched(mine, str(receipt.batch_id), as_json=False))
        for number, part in enumerate(parts):
            await asyncio.to_thread(finish, server, part, [number])
        assert await asyncio.wait_for(watching, 30) == 0
    assert capsys.readouterr().out == "[[0],[1]]\n"
