"""Files in handlers of every kind: coroutines, threads and child processes read what they are given, and save more."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha, File, FinalError, JobContext, ThreadFile, ThreadJobContext
from ficha.testing import FakeJobContext, Sandbox
from tests.support.waiting import until
from tests.worker.in_process import app_on, ended


async def shouts(job: JobContext, text: File, times: int = 1) -> dict[str, Any]:
    """Runs on the loop, or in a child process."""
    read = b"".join([chunk async for chunk in text.chunks()])
    assert read == await text.read()
    with tempfile.TemporaryDirectory() as folder:
        path = await text.save_to(Path(folder) / "copy")
        made = await job.save("loud.txt", path)
    again = await job.save("twice.txt", [(await made.read()).upper()] * times)
    return {"facts": [text.name, text.media_type, text.size], "pid": os.getpid(), "files": [made, again]}


def whispers(job: ThreadJobContext, text: ThreadFile) -> dict[str, Any]:
    """Runs in a thread, or in a thread of a child process."""
    with tempfile.TemporaryDirectory() as folder:
        assert text.save_to(Path(folder) / "copy").read_bytes() == text.read()
    made = job.save("quiet.txt", text.read().lower())
    assert made.read() == b"".join(job.file(made.id).chunks())
    return {"facts": [text.name, text.media_type, text.size], "pid": os.getpid(), "files": [made]}


async def contents(app: Ficha, result: dict[str, Any]) -> list[bytes]:
    return [b"".join([chunk async for chunk in app.read_file(one["file"])]) for one in result["files"]]


def exists(folder: str) -> bool:
    return Path(folder).is_dir()


def spools() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("ficha-run-")}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Ficha]:
    made = app_on(files=f"file://{tmp_path}/files", secret="s" * 40, public_url="https://example.com")
    for isolation in ("auto", "process"):
        made.tool(name=f"shouts_{isolation}", isolation=isolation)(shouts)
        made.tool(name=f"whispers_{isolation}", isolation=isolation)(whispers)
    async with made:
        await made.open_account("ana")
        yield made
        assert await made.verify() == []


@pytest.mark.parametrize("isolation", ["auto", "process"])
async def test_every_kind_of_handler_reads_and_saves_files(app: Ficha, isolation: str) -> None:
    before = spools()
    given = await app.upload("ana", "hello.txt", b"Hello " * 300_000)
    loud = await app.submit(f"shouts_{isolation}", {"text": given.id, "times": 2}, account="ana")
    quiet = await app.submit(f"whispers_{isolation}", {"text": given.id}, account="ana")
    async with asyncio.timeout(60):
        await app.run_worker(burst=True)
    first, second = await app.job(loud.job_id), await app.job(quiet.job_id)
    assert (first.status, second.status) == ("completed", "completed"), (first.error, second.error)
    for job in (first, second):
        assert job.result["facts"] == ["hello.txt", "text/plain", 1_800_000]
        assert (job.result["pid"] == os.getpid()) is (isolation == "auto")
    assert await contents(app, first.result) == [b"Hello " * 300_000, b"HELLO " * 600_000]
    assert await contents(app, second.result) == [b"hello " * 300_000]
    # The folder of a run goes with it, on a thread.
    await until(lambda: not spools() - before)


async def test_a_step_that_saved_a_file_gives_it_again_in_the_next_run(tmp_path: Path) -> None:
    app = app_on(files=f"file://{tmp_path}/files")
    runs: list[str] = []

    @app.tool(attempts=2, backoff=0.001)
    async def resumes(job: JobContext) -> File:
        async def draw() -> File:
            runs.append("draw")
            return await job.save("out.txt", b"drawn")

        made = await job.step("draw", draw)
        assert (await made.read(), made.size) == (b"drawn", 5)
        if job.attempt == 1:
            raise RuntimeError("once")
        return made

    async with app:
        await app.open_account("ana")
        receipt = await app.submit("resumes", {}, account="ana")
        worker = asyncio.create_task(app.run_worker())
        job = await ended(app, receipt.job_id)
        worker.cancel()
        assert (job.status, runs) == ("completed", ["draw"]), job.error
        assert [file.name for file in await app.job_files(job.id)] == ["out.txt"]


async def test_a_field_that_names_no_file_fails_the_job_for_good(tmp_path: Path) -> None:
    app = app_on(files=f"file://{tmp_path}/files")

    @app.tool(attempts=3)
    async def asks(job: JobContext, image: str, images: list[str]) -> None:
        for field, words in (("image", "names no file"), ("images", "is a list of files"), ("none", "names no file")):
            with pytest.raises(FinalError, match=words):
                job.file(field)
        with pytest.raises(RuntimeError, match="only its id is known"):
            _ = job.files("images")[0].size
        await job.files("images")[0].read()

    async with app:
        await app.open_account("ana")
        given = await app.upload("ana", "a", b"x")
        receipt = await app.submit("asks", {"image": "x", "images": [given.id]}, account="ana")
        await app.run_worker(burst=True)
        assert (await app.job(receipt.job_id)).error is None


async def test_a_fake_job_has_files_and_keeps_what_is_saved() -> None:
    job = FakeJobContext(files={"text": b"Hello"})
    result = await shouts(job, job.file("text"), times=2)
    assert (job.saved, result["facts"][2]) == ({"loud.txt": b"Hello", "twice.txt": b"HELLOHELLO"}, 5)
    assert job.file("text").id == job.payload["text"]
    job = FakeJobContext(files={"text": b"Hello"})
    whispers(job.in_thread, job.in_thread.file("text"))
    assert job.saved == {"quiet.txt": b"hello"}
    assert await job.file("text").url() == f"https://files.invalid/{job.payload['text']}"


async def test_a_sandbox_has_a_storage_of_its_own() -> None:
    app = app_on()
    app.tool(shouts)
    usual = app.file_access
    async with Sandbox(app) as sandbox:
        await app.open_account("ana")
        given = await app.upload("ana", "hello.txt", b"Hello")
        receipt = await app.submit("shouts", {"text": given.id}, account="ana")
        await sandbox.run()
        result = (await app.job(receipt.job_id)).result
        assert await contents(app, result) == [b"Hello", b"HELLO"]
        folder = app.file_access.url.removeprefix("file://")
        assert exists(folder)
    assert app.file_access is usual
    assert not exists(folder)
