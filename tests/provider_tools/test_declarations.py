"""What is wrong with a provider tool shows when it is declared, or in the job's error."""

from typing import Any

import pytest

from ficha import Ficha, JobContext
from ficha.providers import Provider, ProviderCall
from ficha.testing import Sandbox, ScriptedProvider


async def draw(job: JobContext, prompt: str = "x") -> ProviderCall:
    return ProviderCall("painter", {"prompt": prompt})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"isolation": "process"}, "isolation is for work that is done here"),
        ({"jobs_per_call": 2}, "jobs_per_call is for work that is done here"),
        ({"checkpoints": ["A"]}, "checkpoints is for work that is done here"),
        ({"when_down": "panic"}, "when_down must be one of refuse, wait"),
        ({"cost": -1}, "cost must be whole credits"),
    ],
)
def test_an_option_that_makes_no_sense_is_told(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Ficha("memory:").provider_tool(ScriptedProvider(), **options)(draw)


def test_a_provider_is_an_object_and_its_name_is_its_own() -> None:
    app = Ficha("memory:")
    with pytest.raises(ValueError, match="is not a Provider"):
        app.provider_tool(ScriptedProvider)  # type: ignore[arg-type]
    one = ScriptedProvider()
    app.provider_tool(one)(draw)
    app.provider_tool(one, name="again")(draw)
    with pytest.raises(ValueError, match="two providers are called 'scripted'"):
        app.provider_tool(ScriptedProvider(), name="other")(draw)
    assert app.providers == {"scripted": one}


async def test_a_tool_that_is_declared_too_late_is_told() -> None:
    async with Ficha("memory:") as app:
        with pytest.raises(RuntimeError, match="declared too late"):
            app.provider_tool(ScriptedProvider())(draw)


async def test_a_function_that_makes_no_call_fails_its_job() -> None:
    app = Ficha("memory:")

    @app.provider_tool(ScriptedProvider(), cost=5, attempts=3)
    async def wrong(job: JobContext) -> Any:
        return {"prompt": "x"}

    async with Sandbox(app) as sandbox:
        await app.open_account("ana", credits=10)
        receipt = await app.submit("wrong", {}, account="ana")
        assert await sandbox.run() == []
        job = await app.job(receipt.job_id)
        assert (job.status, job.error) == (
            "failed",
            "the function of a provider tool returns a ProviderCall, not dict",
        )
        assert (await app.account("ana")).balance == 10


async def test_a_class_that_was_not_finished_fails_its_job_and_not_the_worker() -> None:
    app = Ficha("memory:")
    app.provider_tool(Provider("bare"), cost=5)(draw)
    async with Sandbox(app) as sandbox:
        await app.open_account("ana", credits=10)
        receipt = await app.submit("draw", {}, account="ana")
        assert await sandbox.run() == []
        assert ((await app.job(receipt.job_id)).status, (await app.account("ana")).balance) == ("failed", 10)
