"""Stored JSON stays the text that it was: every store, view and handler has the same numbers, of the same kind."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ficha import Ficha, JobContext, JobView, Page
from ficha import validation as arg
from ficha.core.commands import Completed
from ficha.core.payload import MAX_INTEGER, canonical, read_json
from ficha.engine.views import STORED_TEXTS
from ficha.json_values import stored_type
from ficha.server.responses import answer
from tests.support.shop import World, claim_one

NUMBERS = [1e16, -0.0, 0.0, 1.0, 100, 100.0, 1e22, 1e308, -1.7976931348623157e308, 5e-324, 0.1, MAX_INTEGER]
"""Those that a database or a parser may bend: whole floats, the ends of the range, a zero with a sign."""
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def text_of(value: Any) -> str:
    """The text that is stored for a value."""
    text = canonical(value, what="it", max_bytes=2**30, max_depth=64)
    assert isinstance(text, str)
    return text


def texts(job: JobView) -> dict[str, str]:
    """The job's JSON as its answer over HTTP has it, by name."""
    sent = msgspec.json.decode(answer(job).body, type=dict[str, msgspec.Raw])
    return {name: bytes(sent[name]).decode() for name in ("payload", "result", "resume_data", "partial")}


@given(VALUES)
@example(NUMBERS)
@settings(max_examples=settings.default.max_examples // 8, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_what_is_stored_comes_back_as_the_same_text(app: Ficha, value: Any) -> None:
    text = text_of(value)
    receipt = await app.submit("anything", {"value": value}, account="ana")
    lease = await claim_one(app, "cpu")
    assert text_of(lease.payload) == f'{{"value":{text}}}'
    assert text_of(await app.save_step(lease, "same", value)) == text
    assert text_of(await app.save_step(lease, "same", "another")) == text
    await app.checkpoint(lease, "HALF", data=[value])
    await app.report(lease, partial=[value])
    assert {name: text_of(one) for name, one in (await app.steps(lease.job_id)).items()} == {"same": text}
    await app.finish(lease, value)
    job = await app.job(receipt.job_id)
    expected = {"payload": f'{{"value":{text}}}', "result": text, "resume_data": f"[{text}]", "partial": f"[{text}]"}
    assert texts(job) == expected
    listed = await app.jobs(account="ana", limit=1, include=STORED_TEXTS)
    assert [texts(one) for one in listed.items] == [expected]
    read = {"payload": job.payload, "result": job.result, "resume_data": job.resume_data, "partial": job.partial}
    assert {name: text_of(one) for name, one in read.items()} == expected


async def test_a_handler_and_an_equal_job_get_the_very_numbers(world: World) -> None:
    seen: list[Any] = []

    def declare(app: Ficha) -> None:
        @app.tool(pool="cpu", dedupe=True)
        async def echo(job: JobContext, values: list[Any]) -> list[Any]:
            stored = await job.step("same", list)
            seen.extend(
                [values, job.payload["values"], job.resume_data, stored, await job.step("more", lambda: values)]
            )
            return values

        @app.tool(pool="cpu")
        def echo_in_a_thread(job: Any, values: list[Any]) -> list[Any]:
            seen.extend([values, job.payload["values"], job.step("same", lambda: values)])
            return values

    app = await world.open(declare)
    await app.open_account("ana", plan="open", credits=100)
    first = await app.submit("echo", {"values": NUMBERS}, account="ana")
    lease = await claim_one(app, "cpu")
    await app.save_step(lease, "same", NUMBERS)
    await app.checkpoint(lease, "HALF", data=NUMBERS)
    await app.hand_back(lease, "for another run")
    again = await app.submit("echo", {"values": NUMBERS}, account="ana")
    threaded = await app.submit("echo_in_a_thread", {"values": NUMBERS}, account="ana")
    await app.run_worker(burst=True)
    assert [text_of(one) for one in seen] == [text_of(NUMBERS)] * 8
    for receipt in (first, again, threaded):
        assert texts(await app.job(receipt.job_id))["result"] == text_of(NUMBERS)
    events = [event.kind for event in await app.events(job=again.job_id)]
    assert events == ["submitted", "reused"]


@pytest.mark.parametrize("size", [2**16, pytest.param(2**20, marks=pytest.mark.long)])
async def test_a_list_of_slow_numbers_costs_the_loop_next_to_nothing(app: Ficha, size: int) -> None:
    """To read such a number takes msgspec ten microseconds; twenty jobs of a megabyte have three and a half million."""
    slow = f"[{','.join(['1e308'] * (size // 6))}]"
    for _ in range(20):
        await app.submit("anything", {}, account="ana")
    for lease in await app.claim("cpu", limit=20, worker="w1"):
        await app.finish_job(lease.job_id, Completed(slow), epoch=lease.epoch)
    found: list[JobView] = []
    after: str | None = None
    began = time.thread_time()
    while len(found) < 20:
        sent = answer(await app.jobs(account="ana", limit=20, include=["result"], after=after)).body
        page = msgspec.json.decode(sent, type=Page[JobView])
        found += page.items
        after = page.next
    took_s = time.thread_time() - began
    assert {bytes(job.stored("result")) for job in found} == {slow.encode()}
    # A tenth of what reading the numbers would take.
    assert took_s < 20 * (size // 6) * 1e-6


def test_reading_stored_json_takes_no_longer_for_slow_numbers() -> None:
    def took_s(number: str) -> float:
        text = f"[{','.join([number] * 20_000)}]"
        began = time.thread_time()
        read_json(text)
        return time.thread_time() - began

    # msgspec takes 0.2 s for each of these, and 0.001 s for others.
    assert max(took_s(number) for number in ("1e308", "5e-324", "1.7976931348623157e308")) < 0.1


async def test_a_job_can_be_shown_returned_and_read_again(app: Ficha) -> None:
    receipt = await app.submit("anything", {"a": 1e16}, account="ana")
    job = await app.job(receipt.job_id)
    assert 'payload_json={"a":1e16}' in repr(job)
    assert stored_type(JobView).read(arg.stored(job, "the result", app.limits), "it") == job
