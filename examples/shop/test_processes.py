"""The shop as it is run: two servers and two workers, as processes of their own, on one database."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from test_shop import new_user, ordered, pay, token

from ficha import Ficha

WITHIN_S = 60.0
HERE = Path(__file__).parent


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(  # noqa: S603 (the commands are those below)
        [sys.executable, "-m", *command], cwd=HERE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield started
    finally:
        started.terminate()
        started.communicate(timeout=30)


def address(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"http://[\d.]+:\d+", line):
            return found[0]
    raise AssertionError("the server did not start")


@pytest.fixture
def servers(shop: httpx.AsyncClient) -> Iterator[list[str]]:
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(process("ficha.cli", "worker", "--app", "jobs:app"))
        started = [stack.enter_context(process("uvicorn", "web:web", "--port", "0")) for _ in range(2)]
        yield [address(server) for server in started]


async def statuses(shop: httpx.AsyncClient, user: str) -> set[str]:
    return {order["status"] for order in (await shop.get("/orders", headers=token(user))).json()}


async def test_two_servers_and_two_workers_sell_everything_once(servers: list[str]) -> None:
    users = [new_user() for _ in range(3)]
    async with httpx.AsyncClient(base_url=servers[0]) as one, httpx.AsyncClient(base_url=servers[1]) as other:
        for user in users:
            payment = f"pay-{user}"
            await asyncio.gather(*(pay(server, user, 50, payment) for server in (one, other) for _ in range(2)))
        placed = [
            (user, await ordered(server, user, "upscale", {"image": f"{number}.png"}))
            for number in range(4)
            for user in users
            for server in (one, other)
        ]
        ends_at = time.monotonic() + WITHIN_S
        for user in users:
            while {order["status"] for order in (await other.get("/orders", headers=token(user))).json()} != {
                "completed"
            }:
                assert time.monotonic() < ends_at
                await asyncio.sleep(0.1)
        for user, job_id in placed:
            shown = (await one.get(f"/orders/{job_id}", headers=token(user))).json()
            assert shown["result"]["image"].endswith("@2x")
    async with Ficha(os.environ["FICHA_DATABASE_URL"], sweep_by_itself=False) as app:
        assert [(await app.account(user)).balance for user in users] == [3 + 50 - 8 * 2] * 3
        assert await app.verify() == []
