"""The guide to clients: its examples do what it says, and it names all that can be set or met."""

import asyncio
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ficha import client as module
from ficha.client import Client, Retries
from tests.client.test_walk import finish
from tests.support.processes import ROOT
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

GUIDE = (ROOT / "docs/clients.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def run(example: str, server: Served, token: str) -> "subprocess.Popen[str]":
    environment = {"FICHA_URL": server.url, "FICHA_TOKEN": token, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-u", "-c", example]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_the_examples_run(server: Served, name: str) -> None:
    token = server.account(name, credits=8)
    for example in EXAMPLES:
        with run(example, server, token) as program, Client(server.url, token) as me, ThreadPoolExecutor(1) as threads:
            assert program.stdout is not None
            finish(server, _job(me), {"picture": "a lighthouse"})
            said = threads.submit(program.stdout.read).result(60)
            assert program.wait(30) == 0
        assert said.splitlines()[-1] == "{'picture': 'a lighthouse'}"
        if "watch" in example:
            assert said.splitlines()[:2] == ["True 3", "queued 5"]
            assert [line for line in said.splitlines() if line in ("submitted", "completed")] == [
                "submitted",
                "completed",
            ]
    with run(EXAMPLES[1], server, token) as poor:
        assert poor.stdout is not None
        assert poor.stdout.read() == "1 credits short\n"


def _job(me: Client) -> str:
    """The job that an example submits, once it has."""

    async def appears() -> str:
        while True:
            if (active := await asyncio.to_thread(me.active_job)) is not None:
                return active.id
            await asyncio.sleep(0.05)

    return asyncio.run(asyncio.wait_for(appears(), 30))


NAMES = sorted({*Retries.__struct_fields__, *module.__all__} - {"Happening", "JobToken", "Tool"})


@pytest.mark.parametrize("name", NAMES)
def test_what_can_be_set_or_met_is_in_the_guide(name: str) -> None:
    assert re.search(rf"\b{name}\b", GUIDE)
