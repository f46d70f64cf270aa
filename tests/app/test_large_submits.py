"""Large submits and quotes: judged by their numbers before any job is made, and bounded in what they hold together."""

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from ficha import Ficha, JobContext, Limits, QuotaExceeded, RateLimited, Refused, SubmitRequest, TooLarge
from ficha.operations import submits
from ficha.operations.submits import LARGE
from ficha.testing import FakeTransaction
from tests.support.shop import World, balance, state

MANY = 10_000
looked_at: list[Any] = []
"""Every text that was checked, and every price that was asked for."""


def looked(value: Any) -> Any:
    looked_at.append(value)
    return value


Text = Annotated[str, AfterValidator(looked)]


def declare(app: Ficha) -> None:
    @app.tool(pool="cpu", cost=1)
    async def say(job: JobContext, text: Text) -> None: ...

    @app.tool(pool="cpu", cost=lambda n: looked(n) * 2, items="n", max_items=4)
    async def draw(job: JobContext, n: int, prompt: str = "") -> None: ...

    @app.tool(pool="cpu", cost=1, items="texts", max_items=2)
    async def read_all(job: JobContext, texts: list[str], tone: Text = "") -> None: ...

    @app.tool(pool="cpu", cost=1, dedupe=True)
    async def know(job: JobContext, text: Text) -> None: ...


@pytest.fixture(autouse=True)
def nothing_looked_at() -> Iterator[None]:
    looked_at.clear()
    yield
    looked_at.clear()


@pytest.fixture
async def large(world: World) -> Ficha:
    app = await world.open(declare)
    await app.open_account("ana", plan="open", credits=3 * MANY)
    await app.open_account("poor", plan="open", credits=MANY - 1)
    await app.open_account("free", plan="free", credits=3 * MANY)
    await app.open_account("trio", plan="trio", credits=3 * MANY)
    return app


@pytest.mark.parametrize(("account", "code"), [("free", "RATE_LIMITED"), ("trio", "QUOTA_EXCEEDED")])
async def test_a_batch_that_the_plan_refuses_costs_no_look_at_its_payloads(
    large: Ficha, account: str, code: str
) -> None:
    before = await state(large)
    with pytest.raises(Refused) as refused:
        await large.submit_batch([("say", {"text": "x"})] * MANY, account=account)
    assert (refused.value.code, looked_at) == (code, [])
    with pytest.raises(Refused) as refused:
        await large.submit("draw", {"n": 4 * MANY}, account=account)
    assert (refused.value.code, looked_at) == (code, [])
    assert await state(large) == before


async def test_a_batch_that_the_balance_refuses_costs_no_look_at_its_payloads(large: Ficha) -> None:
    before = await state(large)
    with pytest.raises(Refused, match=f"has {MANY - 1} credits and needs {MANY}"):
        await large.submit_batch([("say", {"text": "x"})] * MANY, account="poor")
    assert looked_at == []
    assert await state(large) == before


async def test_what_an_earlier_result_may_answer_is_judged_by_the_hour_alone(large: Ficha) -> None:
    items = [("know", {"text": "x"})] * (LARGE + 1)
    with pytest.raises(RateLimited):
        await large.submit_batch(items, account="free")
    assert looked_at == []
    with pytest.raises(QuotaExceeded):
        await large.submit_batch(items, account="trio")
    assert looked_at != []


async def test_the_edge_of_what_is_judged_first(large: Ficha) -> None:
    """A smaller batch is refused all the same, by its jobs."""
    for count, looks in ((LARGE, LARGE), (LARGE + 1, 0)):
        looked_at.clear()
        with pytest.raises(RateLimited):
            await large.submit_batch([("say", {"text": "x"})] * count, account="free")
        assert len(looked_at) == looks


async def test_a_repeat_is_answered_whatever_the_limits_are_by_then(world: World) -> None:
    app = await world.open(declare)
    await app.open_account("ana", plan="open", credits=3 * LARGE)
    items = [("say", {"text": "x"})] * (2 * LARGE)
    first = await app.submit_batch(items, account="ana", idempotency_key="k")
    await app.change_plan("ana", "free")
    again = await app.submit_batch(items, account="ana", idempotency_key="k")
    assert (again.batch_id, again.idempotent_hit) == (first.batch_id, True)
    with pytest.raises(RateLimited):
        await app.submit_batch(items, account="ana", idempotency_key="other")


async def test_an_unknown_tool_and_a_bad_payload_are_still_told(large: Ficha) -> None:
    good = [("say", {"text": "x"})] * (2 * LARGE)
    before = await state(large)
    for bad in (("nope", {}), ("say", {}), (["say"], {})):
        with pytest.raises(Refused) as refused:
            await large.submit_batch([*good, bad], account="ana")
        assert refused.value.code in ("UNKNOWN_TOOL", "INVALID_PAYLOAD")
    assert await state(large) == before


async def test_equal_jobs_of_a_split_are_priced_once(large: Ficha) -> None:
    receipt = await large.submit("draw", {"n": 4 * 10 + 1}, account="ana")
    assert (receipt.jobs, receipt.cost) == (11, 2 * (4 * 10 + 1))
    assert looked_at == [4, 3]
    ids = {job.id for job in (await large.jobs(batch=receipt.batch_id)).items}
    sizes = [(await large.part(job_id)).payload["n"] for job_id in ids]
    assert (len(sizes), sorted(set(sizes)), sum(sizes)) == (11, [3, 4], 4 * 10 + 1)
    assert await large.verify() == []


async def test_a_quote_of_ten_thousand_jobs_makes_none(large: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(submits, "new_id", lambda: made.append(1) or f"00000000-0000-7000-8000-{len(made):012}")
    quote = await large.quote("draw", {"n": 4 * MANY - 1}, account="ana")
    assert (quote.admitted, quote.jobs, quote.cost) == (False, MANY, 2 * (4 * MANY - 1))
    assert (looked_at, len(made) <= 3) == ([4, 3], True)
    looked_at.clear()
    made.clear()
    quote = await large.quote("read_all", {"texts": ["x"] * (2 * MANY), "tone": "dry"}, account="ana")
    assert (quote.admitted, quote.jobs, quote.cost, quote.new_balance) == (True, MANY, MANY, 2 * MANY)
    # The payload as it came, and one part of it for all that are as long.
    assert (looked_at, len(made) <= 3) == (["dry", "dry"], True)


async def test_a_quote_of_a_split_says_what_the_submit_leads_to(large: Ficha) -> None:
    for tool, payload in (
        ("draw", {"n": 10}),
        ("read_all", {"texts": ["a"] * 7}),
        ("embed_all", {"texts": ["a"] * 9}),
        ("images", {"n": 9, "quality": "fine"}),
    ):
        quote = await large.quote(tool, payload, account="ana")
        receipt = await large.submit(tool, payload, account="ana")
        assert (quote.cost, quote.jobs, quote.new_balance, quote.position, quote.priority) == (
            receipt.cost,
            receipt.jobs,
            receipt.new_balance,
            receipt.position,
            receipt.priority,
        )


async def test_the_payloads_of_one_submit_are_bounded_together(world: World) -> None:
    """A split gives every job the rest of the payload: a long prompt for many items is stored many times."""
    prompt = "é" * 500
    text = len(f'{{"n":4,"prompt":"{prompt}"}}'.encode())
    app = await world.open(declare, limits=Limits(batch_bytes=10 * text))
    await app.open_account("ana", plan="open", credits=1_000)
    before = await state(app)
    for call in (app.submit, app.quote):
        with pytest.raises(TooLarge, match=f"more than the {10 * text} bytes"):
            await call("draw", {"n": 44, "prompt": prompt}, account="ana")
    with pytest.raises(TooLarge, match="Store large data elsewhere"):
        await app.submit_batch([("draw", {"n": 4, "prompt": prompt})] * 11, account="ana")
    assert await state(app) == before
    assert (await app.submit("draw", {"n": 40, "prompt": prompt}, account="ana")).jobs == 10
    assert (await app.submit_batch([("draw", {"n": 4, "prompt": prompt})] * 10, account="ana")).jobs == 10
    assert await balance(app) == 1_000 - 160


async def test_a_submit_in_the_callers_own_transaction_is_judged_there(world: World) -> None:
    app = await world.open(declare)
    await app.open_account("ana", plan="open")
    async with FakeTransaction() as connection:
        await app.grant("ana", 2 * LARGE, connection=connection)
        receipt = await app.submit_batch([("say", {"text": "x"})] * (2 * LARGE), account="ana", connection=connection)
    assert receipt.new_balance == 0


async def test_many_submits_judge_each_request_by_itself(large: Ficha) -> None:
    answers = await large.submit_many(
        [
            SubmitRequest(tool="draw", payload={"n": 4 * 2 * LARGE}, account="free"),
            SubmitRequest(tool="say", payload={"text": "x"}, account="free"),
        ]
    )
    assert [getattr(answer, "code", None) for answer in answers] == ["RATE_LIMITED", None]
