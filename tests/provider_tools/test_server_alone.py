"""A server without any worker: a call-back finishes its job, with its files, as real processes over real HTTP."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import httpx
import pytest

from ficha import Ficha
from tests.provider_tools import paid_starts
from tests.provider_tools.loopback import ended, money
from tests.provider_tools.paid_starts import worker
from tests.support.provider_simulator import Receiver, Simulated
from tests.support.server_process import NO_TLS, Served
from tests.support.waiting import until


@pytest.mark.long_on("postgresql-fal", "postgresql-runninghub")
@pytest.mark.req("A5", "A12")
@pytest.mark.parametrize("tool", ["replicate", "fal", "runninghub"])
async def test_a_server_alone_finishes_a_job_from_a_call_back_and_copies_its_files(
    paid: Ficha, simulator: Simulated, callbacks: Receiver, tmp_path: Path, tool: str
) -> None:
    simulator.task(hold=True)
    job_id = (await paid.submit(tool, {}, account="ana")).job_id
    with worker(tmp_path / "log"):
        await until(lambda: _ref(paid, job_id), what="the provider has accepted the job")
    # From here on there is no worker.
    server = await asyncio.to_thread(Served, os.environ["FICHA_DATABASE_URL"])
    files = os.environ["FICHA_FILES_URL"]
    options = ("--app", "tests.provider_tools.paid_starts:app")
    await asyncio.to_thread(server.start, *options, FICHA_SECRET=paid_starts.OUR_SECRET, FICHA_FILES_URL=files)
    try:
        simulator.finish(simulator.tasks()[0]["id"])
        received = (await until(lambda: callbacks.received, what="the provider has called back"))[0]
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=NO_TLS) as provider:
            answer = await provider.post(received.path, headers=received.headers, content=received.body)
        assert answer.status_code == 200, answer.text
        job = await ended(paid, job_id)
    finally:
        await asyncio.to_thread(server.stop)
    assert (job.status, len(job.result["files"])) == ("completed", 1), "".join(server.lines)[-2_000:]
    assert await money(paid) == [("grant", 100), ("charge", -5)]


async def _ref(paid: Ficha, job_id: str) -> str | None:
    return (await paid.job(job_id)).provider_ref
