"""A scripted provider in a sandbox: the provider's side of a tool is played by the test."""

import pytest

from ficha import Ficha, JobContext
from ficha.providers import ProviderCall, ProviderError, RemoteFile
from ficha.testing import Sandbox, ScriptedProvider


def studio(painter: ScriptedProvider) -> Ficha:
    app = Ficha("memory:")

    @app.provider_tool(painter, cost=5, attempts=2, backoff=60, timeout=600)
    async def paint(job: JobContext, prompt: str) -> ProviderCall:
        return ProviderCall("painter", {"prompt": prompt})

    return app


async def submitted(app: Ficha) -> str:
    await app.open_account("ana", credits=100, exist_ok=True)
    return (await app.submit("paint", {"prompt": "cats"}, account="ana", correlation_id="c-1")).job_id


async def test_work_waits_for_the_test_and_is_finished_by_its_call_back() -> None:
    painter = ScriptedProvider()
    async with Sandbox(app := studio(painter)) as sandbox:
        job_id = await submitted(app)
        [waiting] = await sandbox.run()
        assert (waiting.status, waiting.provider_ref) == ("running", "work-1")
        [start] = painter.started
        assert (start.call, start.key, start.correlation_id) == (
            ProviderCall("painter", {"prompt": "cats"}),
            f"{job_id}:0",
            "c-1",
        )
        painter.succeed("a painting", cost=0.01)
        await painter.call_back(app)
        assert await sandbox.run() == []
        assert (await app.job(job_id)).result == {"output": "a painting", "files": []}


async def read(app: Ficha, file_id: str) -> bytes:
    return b"".join([chunk async for chunk in app.read_file(file_id)])


async def test_its_files_are_copied_without_a_request() -> None:
    painter = ScriptedProvider()
    async with Sandbox(app := studio(painter)) as sandbox:
        job_id = await submitted(app)
        await sandbox.run()
        painter.succeed("two", painter.file("a cat.txt", b"a cat"), RemoteFile("https://p.example/dog.txt"))
        await painter.call_back(app)
        assert await sandbox.run() == []
        assert [file["name"] for file in (await app.job(job_id)).result["files"]] == ["a cat.txt", "dog.txt"]
        stored = {file.name: await read(app, file.id) for file in await app.job_files(job_id)}
        assert stored == {"a cat.txt": b"a cat", "dog.txt": b"what a scripted provider made"}


async def test_without_a_call_back_the_provider_is_asked_when_the_clock_says_so() -> None:
    painter = ScriptedProvider(poll_s=30)
    async with Sandbox(app := studio(painter)) as sandbox:
        job_id = await submitted(app)
        await sandbox.run()
        painter.fail("too dark")
        assert len(await sandbox.run()) == 1
        sandbox.clock.advance(30)
        assert await sandbox.run() == []
        job = await app.job(job_id)
        assert (job.status, job.user_error, (await app.account("ana")).balance) == ("failed", "too dark", 100)


async def test_a_failure_that_is_not_final_is_run_again() -> None:
    painter = ScriptedProvider()
    async with Sandbox(app := studio(painter)) as sandbox:
        job_id = await submitted(app)
        await sandbox.run()
        painter.fail("the machine broke", final=False, ref="work-1")
        await painter.call_back(app, "work-1")
        await sandbox.run()
        assert [start.key for start in painter.started] == [f"{job_id}:0", f"{job_id}:1"]
        painter.succeed("at last")
        await painter.call_back(app)
        await sandbox.run()
        assert (await app.job(job_id)).result["output"] == "at last"


async def test_a_request_that_is_refused_fails_the_job_and_a_cancelled_job_is_cancelled_there() -> None:
    painter = ScriptedProvider()
    async with Sandbox(app := studio(painter)) as sandbox:
        painter.refuse(ProviderError("no such painter", final=True, for_user=True))
        refused = await submitted(app)
        await sandbox.run()
        assert (await app.job(refused)).user_error == "no such painter"
        cancelled = await submitted(app)
        await sandbox.run()
        await app.cancel(cancelled)
        await sandbox.run()
        assert painter.cancelled == ["work-1"]


async def test_an_application_without_an_address_is_told_how_to_get_one() -> None:
    painter = ScriptedProvider()
    async with studio(painter) as app:
        await submitted(app)
        await app.run_worker(burst=True)
        with pytest.raises(RuntimeError, match="`secret` and `public_url`"):
            await painter.call_back(app)
