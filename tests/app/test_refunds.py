"""An operator gives back what a job was charged, once, and the audit log has it."""

from typing import Any

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


async def test_a_part_of_a_charge_is_refunded_once(app: Ficha) -> None:
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    await app.finish(await claim_one(app), result={})
    with pytest.raises(InvalidState, match="Refund at most 5"):
        await app.refund(job_id, amount=6, reason="slow")
    done = await app.acting("boss").refund(job_id, share=0.5, reason="slow")
    assert (done.changed, done.refunded, done.new_balance) == (True, 3, 998)
    assert not (await app.refund(job_id, share=0.5, reason="slow")).changed
    with pytest.raises(InvalidState, match="the other 2 back with adjust"):
        await app.refund(job_id, reason="slow")
    assert (await app.job(job_id)).refunded == 3
    assert (await app.audit()).items[0].details["share"] == "0.5"
    assert await app.verify() == []


@pytest.mark.parametrize(
    "part",
    [
        *({"amount": amount} for amount in (0, -1, 1.5, True, "3", 2**63)),
        *({"share": share} for share in (0, -0.5, 1.1, True, "0.5", float("nan"), float("inf"))),
        {"amount": 1, "share": 0.5},
    ],
    ids=str,
)
async def test_a_part_that_cannot_be_is_refused_in_words(app: Ficha, part: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=r"the (amount|share)|an amount or a share"):
        await app.refund("00000000-0000-7000-8000-000000000000", reason="why", **part)
    with pytest.raises(InvalidArgument, match=r"the (amount|share)|an amount or a share"):
        await app.begin_bulk_act("refund", "state:completed", reason="why", **part)
