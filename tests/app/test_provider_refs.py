"""A job is found by the reference under which an external provider took it over."""

import pytest

from ficha import Ficha, NotFound
from tests.support.shop import World, claim_one

pytestmark = pytest.mark.long_on("postgresql")


async def test_a_job_is_found_by_its_providers_reference_while_it_waits_and_after_its_end(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    with pytest.raises(NotFound, match="no job with the provider's reference 'p-1'"):
        await app.job_by_ref("p-1")
    await app.accept(await claim_one(app), "p-1")
    found = await app.job_by_ref("p-1")
    assert (found.id, found.provider_ref) == (job_id, "p-1")
    await app.finish_job(found.id, app.completed("done"))
    assert ((await app.job_by_ref("p-1")).status, (await app.job_by_ref("p-1")).result) == ("completed", "done")


async def test_of_several_jobs_with_one_reference_the_last_is_found_or_the_last_of_a_tool(world: World) -> None:
    app = await world.open()
    await app.open_account("ana", plan="open", credits=100)
    ids = []
    for tool, payload in (("upscale", {"image": "x"}), ("video", {}), ("upscale", {"image": "y"})):
        ids.append((await app.submit(tool, payload, account="ana")).job_id)
        await app.accept(await claim_one(app), "same")
        world.clock.advance(1)
    assert (await app.job_by_ref("same")).id == ids[2]
    assert (await app.job_by_ref("same", tool="video")).id == ids[1]
    with pytest.raises(NotFound):
        await app.job_by_ref("same", tool="embed")


async def test_a_provider_that_says_no_fails_the_job_as_a_run_would(app: Ficha) -> None:
    job_id = (await app.submit("stubborn", account="ana")).job_id
    await app.accept(await claim_one(app, "cpu"), "p-1")
    first = await app.finish_job((await app.job_by_ref("p-1")).id, app.failed("busy"))
    assert (first.status, first.refunded) == ("queued", 0)
    await app.cancel(job_id)
    late = await app.finish_job((await app.job_by_ref("p-1")).id, app.failed("busy"))
    assert (late.status, late.changed) == ("cancelled", False)
