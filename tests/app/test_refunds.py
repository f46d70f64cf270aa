"""An operator gives back what a job was charged, once, and the audit log has it."""

import pytest

from ficha import Ficha, InvalidArgument, InvalidState, NotFound
from tests.support.shop import balance, claim_one, history, ledger

pytestmark = pytest.mark.long_on("postgresql")


async def test_an_operator_refunds_a_completed_job_once(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    with pytest.raises(InvalidState, match="Cancel it"):
        await app.refund(job_id, reason="too early")
    await app.finish(await claim_one(app), result={})
    done = await app.acting("boss").refund(job_id, reason="it was black")
    assert (done.status, done.changed, done.refunded, done.new_balance) == ("completed", True, 5, 1_000)
    again = await app.acting("boss").refund(job_id, reason="it was black")
    assert (again.changed, again.new_balance) == (False, 1_000)
    assert (await app.ledger("ana")).items[0].reason == "it was black"
    assert await ledger(app) == [("grant", 1_000, 1_000), ("charge", -5, 995), ("refund", 5, 1_000)]
    assert (await history(app, job_id))[-1] == "refunded"
    lines = (await app.audit()).items
    assert [(line.actor, line.act, line.target) for line in lines] == [("boss", "refund", f"job {job_id}")] * 2
    assert lines[1].details["refunded"] == 5
    assert lines[0].details["changed"] is False
    assert await app.verify() == []


async def test_what_is_left_of_a_partly_refunded_job_is_given_back_with_adjust(app: Ficha) -> None:
    job_id = (await app.submit("images", {"n": 4, "quality": "fine"}, account="ana")).job_id
    await app.finish(await claim_one(app), result=[], delivered=3, of=4)
    with pytest.raises(InvalidState, match="the other 9 back with adjust") as refused:
        await app.refund(job_id, reason="all of it was bad")
    assert refused.value.details["left"] == 9
    await app.adjust("ana", 9, reason="all of it was bad")
    assert await balance(app) == 1_000
    assert await app.verify() == []


async def test_a_refund_needs_a_reason_and_a_job(app: Ficha) -> None:
    for bad in ("", "  ", None, 7):
        with pytest.raises(InvalidArgument, match="reason"):
            await app.refund("00000000-0000-7000-8000-000000000000", reason=bad)  # type: ignore[arg-type]
    for job_id in ("00000000-0000-7000-8000-000000000000", "none"):
        with pytest.raises(NotFound):
            await app.refund(job_id, reason="why")
