"""Tools as objects: called like their functions, and submitted with the payload's fields as arguments."""

import inspect
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from ficha import DeclaredTool, Ficha, InvalidPayload, JobContext, NotFound, ThreadJobContext, UnknownTool
from tests.support.shop import World, claim_one

pytestmark = pytest.mark.long_on("postgresql")


class Size(BaseModel):
    width: int
    height: int = 10


def declare(app: Ficha) -> dict[str, DeclaredTool[Any, Any, Any]]:
    """Tools of all shapes, by name."""

    @app.tool
    async def bare(job: JobContext, image: str, scale: int = 2) -> str:
        """Makes a picture larger."""
        return f"{image} x{scale}"

    @app.tool(cost=5)
    def remind(job: ThreadJobContext, on: date, size: Size | None = None, notes: tuple[str, ...] = ()) -> str:
        return f"{on} {size}"

    @app.tool()
    async def open_to_all(job: JobContext, **fields: Any) -> dict[str, Any]:
        return fields

    @app.tool(cost=1)
    async def visit(job: JobContext, session: str, account: str = "") -> str:
        return session

    @app.tool(jobs_per_call=4)
    async def several(jobs: list[JobContext], payloads: list[Size]) -> list[int]:
        return [size.width for size in payloads]

    return {tool.name: tool for tool in (bare, remind, open_to_all, visit, several)}


async def test_a_tool_is_submitted_with_the_fields_of_its_payload(world: World) -> None:
    app = await world.open()
    tools = declare(app)
    await app.open_account("ana", plan="open", credits=100)
    when = datetime.now(UTC) + timedelta(days=7)
    first = await tools["bare"].submit(image="cat", account="ana", idempotency_key="k", session="tab", run_at=when)
    again = await app.submit("bare", {"image": "cat"}, account="ana", idempotency_key="k")
    assert (again.job_id, again.idempotent_hit) == (first.job_id, True)
    job = await app.job(first.job_id)
    assert (job.tool, job.payload, job.session, job.scheduled_at) == ("bare", {"image": "cat"}, "tab", when)

    receipt = await tools["remind"].submit(
        on=date(2031, 5, 6), size=Size(width=3), notes=("a", "b"), account="ana", delay_s=0
    )
    assert receipt.cost == 5
    payload = {"on": "2031-05-06", "size": {"width": 3, "height": 10}, "notes": ["a", "b"]}
    assert (await app.job(receipt.job_id)).payload == payload
    assert (await tools["remind"].quote(on=date(2031, 5, 6), account="ana")).cost == 5
    for name, fields in (("open_to_all", {"anything": 1}), ("several", {"width": 7})):
        made = await tools[name].submit(**fields, account="ana")
        assert (await app.job(made.job_id)).payload == fields
    assert await app.verify() == []


async def test_options_and_fields_can_be_told_apart_by_place(world: World) -> None:
    app = await world.open()
    visit, bare = map(declare(app).__getitem__, ("visit", "bare"))
    await app.open_account("ana", plan="open", credits=100)
    for options in ({"account": "ana"}, {"account": "ana", "session": "tab"}):
        receipt = await visit.options(**options).submit(session="night", account="nobody")
        job = await app.job(receipt.job_id)
        assert (job.account, job.session) == ("ana", options.get("session"))
        assert job.payload == {"session": "night", "account": "nobody"}
    assert (await visit.options(account="ana").quote("night")).cost == 1
    with pytest.raises(
        TypeError, match=r"'account' is a field .* write visit.options\(account=…\).submit\(account=…\)"
    ):
        await visit.submit(account="ana")
    made = await bare.options(account="ana").submit("cat", scale=3)
    assert (await app.job(made.job_id)).payload == {"image": "cat", "scale": 3}
    with pytest.raises(TypeError, match="got the field 'image' twice"):
        await bare.options(account="ana").submit("cat", image="dog")
    with pytest.raises(TypeError, match="tool bare has 2 fields, not 3"):
        await bare.options(account="ana").submit("cat", 3, 4)


async def test_what_is_wrong_is_refused_as_by_a_submit(world: World) -> None:
    app = await world.open()
    tools = declare(app)
    await app.open_account("ana", plan="open", credits=100)
    with pytest.raises(InvalidPayload, match="does not fit tool bare: image: Field required"):
        await tools["bare"].submit(account="ana")
    with pytest.raises(InvalidPayload, match="imag: Extra inputs"):
        await tools["bare"].submit(image="cat", imag="dog", account="ana")
    with pytest.raises(InvalidPayload, match="holds a bytes, which is not JSON"):
        await tools["open_to_all"].submit(pixels=b"x", account="ana")
    with pytest.raises(NotFound, match="no account 'nobody'"):
        await tools["bare"].submit(image="cat", account="nobody")
    with pytest.raises(TypeError, match="account"):
        await tools["bare"].submit(image="cat")
    with pytest.raises(UnknownTool):
        await app.submit("remnd", account="ana")


async def test_a_declared_tool_is_still_its_function() -> None:
    app = Ficha("memory:")
    tools = declare(app)
    bare = tools["bare"]
    assert await bare(None, "cat", scale=3) == "cat x3"
    assert tools["remind"](None, on=date(2031, 5, 6)) == "2031-05-06 None"
    assert (bare.__name__, bare.__doc__, repr(bare)) == ("bare", "Makes a picture larger.", "<tool bare>")
    assert list(inspect.signature(bare).parameters) == ["job", "image", "scale"]
    assert bare.tool is app.tools["bare"]
    with pytest.raises(RuntimeError, match="the application is not open"):
        await bare.submit(image="cat", account="ana")


def test_one_function_can_be_several_tools_and_serve_several_applications() -> None:
    app, other = Ficha("memory:"), Ficha("memory:")

    @app.tool(cost=5)
    @other.tool
    def draw(job: ThreadJobContext, n: int) -> int:
        return n

    cheap = app.tool(name="cheap")(draw)
    third = app.tool(name="third")(partial(draw.handler, n=1))
    assert (draw(None, 3), cheap(None, 4), third(None)) == (3, 4, 1)
    assert (sorted(app.tools), list(other.tools)) == (["cheap", "draw", "third"], ["draw"])
    assert app.tools["draw"].handler is other.tools["draw"].handler is cheap.handler
    with pytest.raises(TypeError, match="cots"):
        app.tool(name="fourth", cots=5)(draw)  # type: ignore[call-overload]


async def test_what_was_submitted_runs(world: World) -> None:
    app = await world.open()
    tools = declare(app)
    await app.open_account("ana", plan="open", credits=100)
    receipt = await tools["remind"].submit(on=date(2031, 5, 6), size=Size(width=3), account="ana")
    lease = await claim_one(app, "default")
    assert app.tools["remind"].arguments(lease.claimed.payload)["size"] == Size(width=3)
    assert lease.job_id == receipt.job_id
