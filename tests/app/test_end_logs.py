"""A job that fails for good leaves a warning, whoever ends it: a worker of another kind, or the sweeper."""

import logging

import pytest

from ficha import Ficha
from tests.support.shop import World


@pytest.mark.req("B9")
async def test_a_job_that_its_worker_fails_for_good_leaves_a_warning(
    app: Ficha, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    [lease] = await app.claim("gpu", worker="remote")
    with caplog.at_level(logging.INFO, "ficha.job"):
        await app.fail(lease, "401 for https://api.example.com/?token=abc", final=True)
        await app.fail(lease, "again", final=True)
    [line] = caplog.records
    assert (line.levelname, line.message, line.job, line.tool) == ("WARNING", "failed", job_id, "upscale")
    assert (line.status, line.error) == ("failed", "401 for https://api.example.com/?token=[hidden]")


async def test_a_job_that_is_tried_again_leaves_none(app: Ficha, caplog: pytest.LogCaptureFixture) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    [lease] = await app.claim("gpu", worker="remote")
    with caplog.at_level(logging.INFO, "ficha.job"):
        await app.retry(lease, 1)
    assert (await app.job(receipt.job_id)).status == "queued"
    assert caplog.records == []


async def test_a_job_that_is_given_up_leaves_a_warning(
    world: World, app: Ficha, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = (await app.submit("hasty", account="ana")).job_id  # It may run for 60 s.
    [lease] = await app.claim("cpu", worker="slow")
    world.clock.advance(55)
    await app.heartbeat(lease)
    world.clock.advance(5)
    await app.heartbeat(lease)
    with caplog.at_level(logging.WARNING, "ficha.engine"):
        assert (await app.sweep()).jobs == {"failed": 1}
    [line] = caplog.records
    assert (line.levelname, line.job, line.status) == ("WARNING", job_id, "failed")
