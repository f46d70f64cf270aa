"""Quotes: what a submit would lead to is what it does lead to, and asking changes nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from ficha import Ficha, InvalidArgument, InvalidPayload, NotFound, UnknownTool
from ficha.engine.views import Quote, moment
from ficha.ids import new_id
from tests.support.shop import World, claim_one, state

pytestmark = pytest.mark.long_on("postgresql")


async def quoted(app: Ficha, tool: str, payload: dict[str, Any], account: str = "ana", **options: Any) -> Quote:
    """The quote, which left everything as it was."""
    before = await state(app)
    quote = await app.quote(tool, payload, account=account, **options)
    assert await state(app) == before
    assert (await app.audit()).items == []
    return quote


@pytest.mark.req("D2", "D7")
async def test_a_quote_is_what_the_submit_then_leads_to(world: World, app: Ficha) -> None:
    await app.open_account("bob", plan="pro", credits=100)
    await app.open_account("eva", plan="starter", credits=100)
    requests: list[tuple[str, dict[str, Any], str]] = [
        ("upscale", {"image": "x"}, "bob"),
        ("video", {"seconds": 3}, "eva"),
        ("images", {"n": 9, "quality": "fine"}, "bob"),
        ("embed_all", {"texts": ["a", "b"]}, "eva"),
        ("upscale", {"image": "y"}, "eva"),
        ("upscale", {"image": "z"}, "bob"),
    ]
    for tool, payload, account in requests:
        quote = await quoted(app, tool, payload, account)
        receipt = await app.submit(tool, payload, account=account)
        assert quote.admitted
        assert quote.refusal is None
        assert (quote.cost, quote.jobs, quote.priority) == (receipt.cost, receipt.jobs, receipt.priority)
        assert (quote.new_balance, quote.balance) == (receipt.new_balance, receipt.new_balance + receipt.cost)
        assert quote.position == receipt.position
        assert quote.quota_warnings == receipt.quota_warnings
    assert await app.verify() == []


@pytest.mark.req("D2", "C3")
async def test_a_quote_says_why_a_submit_would_be_refused(world: World, app: Ficha) -> None:
    await app.open_account("bob", plan="single", credits=7)
    await app.open_account("eva", plan="free", credits=100)
    await app.open_account("ivo", plan="thrifty", credits=100)
    poor = await quoted(app, "video", {}, "bob")
    assert (poor.admitted, poor.cost, poor.jobs, poor.balance, poor.new_balance) == (False, 20, 1, 7, None)
    assert (poor.priority, poor.position, poor.estimated_wait_s) == (None, None, None)
    assert poor.refusal is not None
    assert (poor.refusal.code, poor.refusal.details) == ("INSUFFICIENT_CREDITS", {"have": 7, "need": 20})
    job = await app.submit("upscale", {"image": "x"}, account="bob")
    busy = await quoted(app, "anything", {}, "bob")
    assert busy.refusal is not None
    assert (busy.refusal.code, busy.refusal.details["job_id"]) == ("ACTIVE_JOB_EXISTS", job.job_id)
    for _ in range(10):
        await app.submit("anything", {}, account="eva")
    fast = await quoted(app, "anything", {}, "eva")
    assert fast.refusal is not None
    assert (fast.refusal.code, fast.refusal.retryable) == ("RATE_LIMITED", True)
    dear = await quoted(app, "images", {"n": 7, "quality": "fine"}, "ivo")
    assert dear.refusal is not None
    assert (dear.refusal.code, dear.jobs, dear.cost) == ("COST_LIMIT", 2, 21)


async def test_a_quote_carries_the_warnings(app: Ficha) -> None:
    await app.open_account("bob", plan="trio", credits=100)
    await app.open_account("ivo", plan="thrifty", credits=100)
    for _ in range(2):
        await app.submit("upscale", {"image": "x"}, account="bob")
    assert (await quoted(app, "upscale", {"image": "x"}, "bob")).quota_warnings == ("3 of 3 active jobs",)
    warned = await quoted(app, "images", {"n": 4, "quality": "fine"}, "ivo")
    assert warned.admitted
    assert warned.cost_limit_warning == "12 credits spent this day, beyond the warning limit of 10"


async def test_a_quote_stands_where_the_job_would(world: World, app: Ficha) -> None:
    await app.open_account("bob", plan="pro", credits=100)
    for _ in range(3):
        await app.submit("upscale", {"image": "x"}, account="ana")
    assert (await quoted(app, "upscale", {"image": "x"})).position == 4
    assert (await quoted(app, "upscale", {"image": "x"}, "bob")).position == 1
    assert (await quoted(app, "upscale", {"image": "x"}, delay_s=60)).position is None
    later = moment(world.clock()) + timedelta(hours=1)
    assert (await quoted(app, "upscale", {"image": "x"}, run_at=later)).position is None
    # Behind its account's own concurrency it waits for those of the account, and for all that are ready.
    await app.open_account("eva", plan="free", credits=100)
    await app.submit("upscale", {"image": "x"}, account="eva")
    parked = await quoted(app, "upscale", {"image": "x"}, "eva")
    assert parked.position == (await app.submit("upscale", {"image": "x"}, account="eva")).position
    # A job that was only asked about is nowhere to be found.
    assert len((await app.jobs()).items) == 5


async def test_a_quote_for_what_was_computed_before_costs_nothing(app: Ficha) -> None:
    await app.submit("embed", {"text": "a"}, account="ana")
    await app.finish(await claim_one(app, "cpu"), 1)
    free = await quoted(app, "embed", {"text": "a"})
    assert (free.admitted, free.cost, free.position, free.balance, free.new_balance) == (True, 0, None, 998, 998)
    assert (await quoted(app, "embed", {"text": "b"})).cost == 2


@pytest.mark.req("C2")
async def test_a_quote_sees_a_reservation_and_a_batch(app: Ficha) -> None:
    await app.open_account("bob", plan="single", credits=100)
    hold = await app.reserve("bob")
    refused = await quoted(app, "upscale", {"image": "x"}, "bob")
    assert refused.refusal is not None
    assert refused.refusal.code == "QUOTA_EXCEEDED"
    assert (await quoted(app, "upscale", {"image": "x"}, "bob", reservation=hold.id)).admitted
    assert (await app.reservations(account="bob")).items[0].state == "active"
    batch = await app.submit_batch([("upscale", {"image": "x"})], account="ana")
    assert (await quoted(app, "upscale", {"image": "x"}, batch=batch.batch_id)).admitted
    for other in (batch.batch_id, new_id()):
        foreign = await quoted(app, "anything", {}, "bob", batch=other, reservation=hold.id)
        assert foreign.refusal is not None
        assert (foreign.refusal.code, foreign.admitted) == ("NOT_FOUND", False)


async def test_what_is_no_submit_at_all_is_refused_as_there(app: Ficha) -> None:
    for kind, arguments in (
        (UnknownTool, ("none", {}, "ana", {})),
        (InvalidPayload, ("upscale", {}, "ana", {})),
        (InvalidPayload, ("upscale", {"image": 7}, "ana", {})),
        (NotFound, ("upscale", {"image": "x"}, "nobody", {})),
        (NotFound, ("upscale", {"image": "x"}, "ana", {"batch": "no id"})),
        (NotFound, ("upscale", {"image": "x"}, "ana", {"reservation": "no id"})),
        (InvalidArgument, ("upscale", {"image": "x"}, "ana", {"delay_s": -1})),
        (InvalidArgument, ("upscale", {"image": "x"}, "", {})),
    ):
        tool, payload, account, options = arguments
        with pytest.raises(kind):
            await app.quote(tool, payload, account=account, **options)


async def test_quotes_do_not_wait_for_whoever_writes(world: World, app: Ficha) -> None:
    """Nothing is locked: quotes and submits of one account go on side by side, and every submit is charged once."""
    quotes = asyncio.gather(*(app.quote("upscale", {"image": f"{n}"}, account="ana") for n in range(40)))
    submits = asyncio.gather(*(app.submit("upscale", {"image": f"{n}"}, account="ana") for n in range(40)))
    answers = await quotes
    receipts = await submits
    assert all(quote.admitted and quote.cost == 5 for quote in answers)
    assert sorted(receipt.new_balance for receipt in receipts) == [1_000 - 5 * n for n in range(40, 0, -1)]
    assert await app.verify() == []
