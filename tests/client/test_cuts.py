"""Connections cut at random bytes, between a real client and a real server: nothing is told or paid twice, or lost."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ficha import EventView, JobView
from ficha.client import Client, Retries
from tests.client.cutting_proxy import proxy
from tests.support.server_process import Served

STUBBORN = Retries(tries=10_000, give_up_s=10_000.0, backoff_s=0.001, backoff_max_s=0.002)
LINES = 150


def write_lines(server: Served, job_id: str) -> None:
    lease = server.take(job_id)
    with server.client(server.service) as worker:
        for number in range(LINES):
            told = worker.post("/api/worker/log", json={**lease, "text": f"line {number}"})
            assert told.status_code == 200, told.text
        assert worker.post("/api/worker/finish", json={**lease, "outcome": "completed", "result": 1}).status_code == 200


class Hours:
    """A clock by which every stream lives long enough, so that a watch never stops to listen."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 10.0
        return self.now


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("how", ["listening", "as it comes"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_watch_cut_again_and_again_tells_each_event_once_and_in_order(
    server: Served, name: str, seed: int, how: str
) -> None:
    token = server.account(name)
    with (
        Client(server.url, token) as me,
        proxy(server.url, seed=seed, most_bytes=3_000) as between,
        ThreadPoolExecutor(1) as threads,
    ):
        job_id = me.submit("paint", {"prompt": "x"}).job_id
        between.let_be_after = 100
        writing = threads.submit(write_lines, server, job_id)
        clock: Any = Hours() if how == "listening" else time.monotonic
        with Client(between.url, token, retries=STUBBORN, clock=clock) as watcher:
            seen = list(watcher.watch(job_id))
        writing.result()
        events = [item for item in seen if isinstance(item, EventView)]
        assert between.cuts >= (10 if how == "listening" else 5)
        assert [event.data["text"] for event in events if event.kind == "log"] == [f"line {n}" for n in range(LINES)]
        assert [event.number for event in events] == [event.number for event in me.events(job=job_id, limit=1_000)]
        assert isinstance(seen[-1], JobView)
        assert seen[-1].result == 1


@pytest.mark.req("C1", "C5")
def test_submits_over_a_line_that_is_cut_are_made_and_paid_once(server: Served, name: str) -> None:
    token = server.account(name, credits=100)
    with proxy(server.url, seed=3, most_bytes=1_500) as between, Client(between.url, token, retries=STUBBORN) as me:
        receipts = [me.submit("paint", {"prompt": f"{number}"}) for number in range(20)]
        cancelled = [me.cancel(receipt.job_id) for receipt in receipts[:5]]
    assert between.cuts >= 5
    assert len({receipt.job_id for receipt in receipts}) == 20
    assert {done.status for done in cancelled} == {"cancelled"}
    with Client(server.url, token) as me:
        assert me.account().balance == 100 - 15 * 3
        lines = me.ledger(limit=100).items
        assert [line.kind for line in lines].count("charge") == 20
        assert [line.kind for line in lines].count("refund") == 5
