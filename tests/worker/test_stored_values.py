"""What handlers return and steps store: values with a usual form as JSON; and for others, no paid step runs twice."""

import asyncio
import io
import logging
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
import pydantic
import pytest

from ficha import CheckpointManager, Ficha, JobContext, Partial, Retry, ThreadJobContext, UnstorableValue
from ficha.core.outcomes import Refusal
from ficha.json_values import returned_by, stored_json, stored_type
from tests.support.shop import balance, history
from tests.worker import handlers
from tests.worker.in_process import app_on, run_one
from tests.worker.test_process_jobs import process_app

ID = UUID("0198a7c0-0000-7000-8000-000000000001")


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Way(Enum):
    UP = "up"


class Point(NamedTuple):
    x: int
    y: int


class Model(pydantic.BaseModel):
    at: datetime
    price: Decimal
    tags: set[str] = set()
    named: str = pydantic.Field(default="", alias="as")


class Picture(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    pixels: bytes


class Raw(pydantic.BaseModel):
    pixels: bytes


@dataclass(frozen=True)
class Scene:
    number: int
    model: Model
    when: date | None = None


@dataclass
class Film:
    reel: bytes


class Shot(msgspec.Struct, frozen=True):
    id: UUID
    scene: Scene
    takes: tuple[timedelta, ...] = ()


MODEL = Model(**{"at": datetime(2031, 5, 6, 7, tzinfo=UTC), "price": "1.10", "tags": {"a"}, "as": "it"})
MODEL_JSON = {"at": "2031-05-06T07:00:00Z", "price": "1.10", "tags": ["a"], "as": "it"}
SCENE = Scene(1, MODEL, date(2031, 5, 6))
SCENE_JSON = {"number": 1, "model": MODEL_JSON, "when": "2031-05-06"}
SHOT = Shot(ID, SCENE, (timedelta(seconds=5),))
SHOT_JSON = {"id": str(ID), "scene": SCENE_JSON, "takes": ["PT5S"]}

FORMS: list[tuple[Any, Any, Any]] = [
    (datetime, datetime(2031, 5, 6, 7, 8, 9, 10, tzinfo=UTC), "2031-05-06T07:08:09.000010Z"),
    (datetime, datetime(2031, 5, 6, tzinfo=timezone(timedelta(hours=2))), "2031-05-06T00:00:00+02:00"),
    (date, date(2031, 5, 6), "2031-05-06"),
    (time, time(7, 8), "07:08:00"),
    (timedelta, timedelta(days=1, seconds=2), "P1DT2S"),
    (UUID, ID, str(ID)),
    (Decimal, Decimal("1.10"), "1.10"),
    (Path, Path("a/b"), "a/b"),
    (Colour, Colour.RED, "red"),
    (Size, Size.LARGE, 3),
    (Way, Way.UP, "up"),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (set[str], {"b", "a", "c"}, ["a", "b", "c"]),
    (frozenset[int], frozenset({2}), [2]),
    (deque[int], deque([1, 2]), [1, 2]),
    (Point, Point(1, 2), [1, 2]),
    (Model, MODEL, MODEL_JSON),
    (Picture, Picture(pixels=b"\xff"), {"pixels": "_w=="}),
    (Scene, SCENE, SCENE_JSON),
    (Shot, SHOT, SHOT_JSON),
    (list[Shot] | None, [SHOT], [SHOT_JSON]),
    (dict[str, list[Model]], {"a": [MODEL]}, {"a": [MODEL_JSON]}),
    (dict[UUID, Scene], {ID: SCENE}, {str(ID): SCENE_JSON}),
    (dict[date, Way], {date(2031, 5, 6): Way.UP}, {"2031-05-06": "up"}),
    (Annotated[Decimal, []], Decimal(2), "2"),
]
"""A type, a value of it, and what is stored."""


@pytest.mark.parametrize(("kind", "value", "stored"), FORMS)
def test_a_value_is_stored_in_its_usual_form_and_comes_back_as_its_type(kind: Any, value: Any, stored: Any) -> None:
    text = stored_json(value, what="it", max_bytes=10_000, max_depth=64)
    assert isinstance(text, str), text
    assert msgspec.json.decode(text) == stored
    known = stored_type(kind)
    assert known.problem is None
    back = known.read(text, "it")
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (MappingProxyType({"a": {1}}), {"a": [1]}),
        ({"a": [(1, {2})]}, {"a": [[1, [2]]]}),
        ([np.float32(0.5), np.int64(3), np.float64(0.25), np.bool_(True)], [0.5, 3, 0.25, True]),
        ([True, None, 1, 0.5, "x"], [True, None, 1, 0.5, "x"]),
    ],
)
def test_containers_and_numbers_of_other_libraries_are_stored_as_plain_ones(value: Any, stored: Any) -> None:
    text = stored_json(value, what="it", max_bytes=10_000, max_depth=64)
    assert isinstance(text, str), text
    found = msgspec.json.decode(text)
    assert (found, str(found)) == (stored, str(stored))


def knot() -> Any:
    tied: list[Any] = [date(2031, 5, 6)]
    tied.append(tied)
    return tied


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"x", "holds a bytes, which is not JSON"),
        ({"a": [bytearray(b"x")]}, "holds a bytearray"),
        (memoryview(b"x"), "holds a memoryview"),
        (Film(b"x"), "holds a bytes"),
        (io.BytesIO(), "holds a BytesIO"),
        ((n for n in [1]), "holds a generator"),
        (iter([1]), "holds a list_iterator"),
        (object(), "holds a object"),
        (len, "holds a builtin_function_or_method"),
        (Model, "holds a ModelMetaclass"),
        (Raw(pixels=b"\xff"), "cannot be written as JSON: .*utf-8"),
        (float("nan"), "holds nan"),
        ({1.5, float("inf")}, "holds inf"),
        (msgspec.structs.replace(SHOT, takes=(float("nan"),)), "holds nan"),
        ({1: date(2031, 5, 6)}, "the key 0x1, which is not text"),
        ({Size.LARGE: 1}, "which is not text"),
        (knot(), "nested too deep"),
        ([date(2031, 5, 6), "x" * 200], "more than the 100 allowed"),
    ],
)
def test_what_has_no_usual_form_is_refused_with_words(value: Any, words: str) -> None:
    found = stored_json(value, what="it", max_bytes=100, max_depth=16)
    assert isinstance(found, Refusal)
    assert re.search(words, found.message), found.message


def test_an_annotation_that_is_wrong_loses_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert stored_type(Model).read('{"at":"soon"}', "the stored result of the step 'a'") == {"at": "soon"}
    assert stored_type(int).read('"x"', "it") == "x"
    assert "the stored result of the step 'a' does not fit the annotated type" in caplog.text


def test_a_function_that_does_not_say_what_it_returns_is_given_plain_json() -> None:
    def hidden() -> "Nowhere": ...  # type: ignore[name-defined] # noqa: F821

    for function in (lambda: 1, len, hidden, partial(len), print):
        assert returned_by(function).reader is None
        assert returned_by(function).problem is None


# Declarations


async def many(jobs: list[JobContext]) -> list[Model | Exception | Partial]:
    return []


async def many_bytes(jobs: list[JobContext]) -> list[bytes]:
    return []


def returning(kind: Any) -> Callable[..., Any]:
    def draw(job: JobContext) -> Any: ...

    draw.__annotations__["return"] = kind
    return draw


class Image:
    """As of a library for images."""


@pytest.mark.parametrize(
    "kind",
    [*(kind for kind, _, _ in FORMS), Any, object, None, dict, list, dict | Partial, Model | Retry, str | bytes, Retry],
)
def test_a_handler_that_returns_what_can_be_stored_is_taken(kind: Any) -> None:
    app = Ficha("memory:")
    app.tool()(returning(kind))
    app.tool(jobs_per_call=2)(many)
    assert sorted(app.tools) == ["draw", "many"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (bytes, "its handler returns bytes, which cannot be stored: bytes are not JSON"),
        (bytearray, "bytearray"),
        (bytes | None, "bytes are not JSON"),
        (dict[str, bytes], "bytes are not JSON"),
        (list[Film], "bytes are not JSON"),
        (Raw, "its handler returns Raw, which cannot be stored: bytes are not JSON"),
        (Image, "its handler returns Image, which cannot be stored: Image is not JSON"),
        (list[Image] | None, "Image is not JSON"),
        (io.BytesIO, "BytesIO is not JSON"),
        (Iterator[int], "Iterator is not JSON"),
        (Generator[int, None, None], "an iterator is not JSON"),
        (Awaitable[dict], "Awaitable is not JSON"),
        (Callable[[], int], "a function is not JSON"),
        (type[Model], "a class is not JSON"),
    ],
)
def test_a_handler_that_returns_what_cannot_be_stored_is_refused_at_its_declaration(kind: Any, words: str) -> None:
    app = Ficha("memory:")
    with pytest.raises(ValueError, match=re.escape(words)):
        app.tool()(returning(kind))
    with pytest.raises(ValueError, match="bytes are not JSON"):
        app.tool(jobs_per_call=2)(many_bytes)
    assert dict(app.tools) == {}


def test_a_generator_is_refused_as_a_handler() -> None:
    app = Ficha("memory:")

    def plain(job: ThreadJobContext) -> Iterator[int]:
        yield 1

    async def coroutine(job: JobContext) -> AsyncIterator[int]:
        yield 1

    class Called:
        def __call__(self, job: ThreadJobContext) -> Any:
            yield 1

    for handler in (plain, coroutine, partial(plain), Called()):
        with pytest.raises(ValueError, match="its handler is a generator: return the result instead"):
            app.tool(name="it")(handler)
    assert dict(app.tools) == {}


# Jobs


async def make_model(price: str) -> Model:
    handlers.calls.append("model")
    return Model(at=datetime(2031, 5, 6, 7, tzinfo=UTC), price=Decimal(price))


def make_scene() -> Scene:
    handlers.calls.append("scene")
    return SCENE


def make_shots(*, count: int) -> list[Shot]:
    handlers.calls.append("shots")
    return [SHOT] * count


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    handlers.calls.clear()


async def test_a_resumed_step_is_of_the_type_that_it_was_in_the_first_run(url: str) -> None:
    app = app_on(url)
    seen: list[list[Any]] = []

    @app.tool(cost=5, attempts=2, backoff=0.001)
    async def film(job: JobContext) -> Scene:
        model = await job.step("model", make_model, "1.10")
        scene = await job.step("scene", make_scene)
        shots = await job.step("shots", make_shots, count=2)
        unsaid = await job.step("unsaid", lambda: make_model("2"))
        seen.append([model, scene, shots, unsaid])
        if job.attempt == 1:
            await job.checkpoint("HALF", data=model)
            raise TimeoutError("try again")
        assert job.resume_data == msgspec.json.decode(model.model_dump_json(by_alias=True))
        return Scene(2, model, shots[1].scene.when)

    async with app:
        job = await until_ended(app, "film")
        assert (job.status, job.error) == ("completed", None)
        assert job.result == {"number": 2, "model": MODEL_JSON | {"tags": [], "as": ""}, "when": "2031-05-06"}
        assert seen[0] == seen[1]
        assert [[type(value) for value in values] for values in seen] == [[Model, Scene, list, dict]] * 2
        assert seen[0][1:3] == [SCENE, [SHOT, SHOT]]
        assert handlers.calls == ["model", "scene", "shots", "model"]
        assert (await app.steps(job.id))["shots"] == [SHOT_JSON] * 2


async def test_a_plain_handler_gets_the_same_types(url: str) -> None:
    app = app_on(url)

    @app.tool(attempts=2, backoff=0.001)
    def film(job: ThreadJobContext) -> Partial:
        model, scene = job.step("model", make_model, "1.10"), job.step("scene", make_scene)
        assert (type(model), scene) == (Model, SCENE)
        job.partial([model])
        if job.attempt == 1:
            raise TimeoutError("try again")
        return Partial({"scenes": (scene,)}, delivered=1, of=1)

    async with app:
        job = await until_ended(app, "film")
        assert (job.error, job.result) == (None, {"scenes": [SCENE_JSON]})
        assert handlers.calls == ["model", "scene"]


async def test_jobs_of_one_call_return_models_each(url: str) -> None:
    app = app_on(url)

    @app.tool(cost=5, jobs_per_call=2, linger_ms=0)
    async def draw(jobs: list[JobContext]) -> list[Any]:
        return [MODEL if job.payload["good"] else b"pixels" for job in jobs]

    async with app:
        await app.open_account("ana", credits=100)
        jobs = [(await app.submit("draw", {"good": good}, account="ana")).job_id for good in (True, False)]
        async with asyncio.timeout(20):
            await app.run_worker(burst=True)
        good, bad = [await app.job(job_id) for job_id in jobs]
        assert (good.status, good.result) == ("completed", MODEL_JSON)
        assert (bad.status, bad.refunded) == ("failed", 5)
        assert bad.error.startswith("the result cannot be stored: the result holds a bytes")


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_a_child_process_stores_and_returns_the_same(url: str, tmp_path: Path) -> None:
    async with process_app(url, attempts=3, backoff=0.01) as app:
        file = tmp_path / "calls"
        good = await run_to_end(app, "typed_step", store=str(file))
        assert (good.status, good.error) == ("completed", None)
        assert good.result == {"title": "cat", "due": "2031-05-06"}
        assert file.read_text() == "1\n"
        bad = await run_to_end(app, "unstorable_step", store=str(file))
        assert (bad.status, bad.attempts, bad.refunded) == ("failed", 1, 5)
        assert "cannot be stored" in bad.error
        assert file.read_text() == "1\n2\n", "paid once, though there are attempts left"
        numbers = await run_to_end(app, "echoes", numbers=[1e16, -0.0, 1.0, 100, 1e308, 5e-324])
        assert bytes(numbers.result_json) == b"[" + b",".join([b"[1e16,-0.0,1.0,100,1e308,5e-324]"] * 4) + b"]"


def paid_bytes() -> Any:
    handlers.calls.append("paid")
    return b"pixels"


def annotated_bytes() -> dict[str, bytes]:
    handlers.calls.append("paid")
    return {}


def large() -> str:
    handlers.calls.append("paid")
    return "x" * 2_000_000


async def opened_file() -> Any:
    handlers.calls.append("paid")
    return io.BytesIO()


UNSTORABLE: list[tuple[str, Callable[..., Any], int, str]] = [
    ("a", paid_bytes, 1, "the result of the step 'a' cannot be stored: .*holds a bytes, which is not JSON"),
    ("a", opened_file, 1, "the result of the step 'a' cannot be stored: .*holds a BytesIO"),
    ("a", large, 1, "the result of the step 'a' cannot be stored: .*more than the 1048576 allowed"),
    ("a", annotated_bytes, 0, "the step 'a' was not run, because its result cannot be stored: bytes are not JSON"),
    ("a" * 256, make_scene, 0, "the name of a step must be text of 1 to 255 characters"),
]


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize(("name", "function", "paid", "words"), UNSTORABLE)
async def test_a_step_that_cannot_be_stored_ends_the_job_and_is_not_paid_again(
    url: str, name: str, function: Callable[..., Any], paid: int, words: str
) -> None:
    app = app_on(url)

    @app.tool(cost=5, attempts=3, backoff=0.001)
    async def draw(job: JobContext) -> None:
        await job.step(name, function)

    @app.tool(cost=5, attempts=3, backoff=0.001)
    def draw_in_thread(job: ThreadJobContext) -> None:
        job.step(name, function)

    async with app:
        await app.open_account("ana", credits=100)
        for tool in ("draw", "draw_in_thread"):
            handlers.calls.clear()
            job = await run_to_end(app, tool)
            assert (job.status, job.attempts, job.refunded) == ("failed", 1, 5)
            assert re.search(words, job.error), job.error
            assert len(handlers.calls) == paid
            assert (await history(app, job.id)).count("retried") == 0
        assert await balance(app) == 100


@pytest.mark.parametrize("where", ["checkpoint", "partial"])
async def test_a_checkpoint_that_cannot_be_stored_ends_the_job(where: str) -> None:
    app = app_on()

    @app.tool(attempts=3, backoff=0.001)
    async def draw(job: JobContext) -> None:
        handlers.calls.append("paid")
        await (job.checkpoint("A", data=b"x") if where == "checkpoint" else job.partial(b"x"))

    async with app:
        job = await run_one(app, "draw")
        assert (job.status, job.attempts, handlers.calls) == ("failed", 1, ["paid"])
        assert "cannot be stored" in job.error


async def test_code_that_runs_elsewhere_does_not_pay_again_either(tmp_path: Path) -> None:
    app = app_on(f"sqlite:///{tmp_path / 'ficha.db'}")

    @app.tool(cost=5, attempts=3)
    def draw(job: Any) -> None: ...

    def work(job_id: str) -> None:
        with CheckpointManager(app, job_id) as manager:
            manager.start()
            assert manager.job.step("scene", make_scene) == SCENE
            manager.complete(b"pixels")

    async with app:
        await app.open_account("ana", credits=100)
        job_id = (await app.submit("draw", account="ana")).job_id
        with pytest.raises(UnstorableValue, match="the result cannot be stored: the result holds a bytes"):
            await asyncio.to_thread(work, job_id)
        job = await app.job(job_id)
        assert (job.status, job.refunded) == ("failed", 5)


async def test_a_function_that_returns_an_awaitable_is_awaited() -> None:
    app = app_on()

    class Fetch:
        async def __call__(self, number: int) -> Point:
            return Point(number, number)

    def later(number: int) -> Awaitable[Point]:
        return Fetch()(number)

    @app.tool()
    async def draw(job: JobContext) -> list[Any]:
        assert type(await job.step("object", Fetch(), 1)) is Point
        return [await job.step("later", later, 2), await job.step("lambda", lambda: later(3))]

    @app.tool()
    def draw_in_thread(job: ThreadJobContext) -> Point:
        return job.step("later", later, number=2)

    async with app:
        await app.open_account("ana", credits=100)
        assert (await run_to_end(app, "draw")).result == [[2, 2], [3, 3]]
        assert (await run_to_end(app, "draw_in_thread")).result == [2, 2]


async def test_other_options_under_the_name_of_a_step_are_an_error() -> None:
    app = app_on()

    @app.tool()
    async def draw(job: JobContext) -> None:
        await job.step("shots", make_shots, count=1)
        await job.step("shots", make_shots, count=2)

    async with app:
        job = await run_one(app, "draw")
        assert "called twice with a different function or arguments" in job.error
        assert handlers.calls == ["shots"]


async def until_ended(app: Ficha, tool: str) -> Any:
    await app.open_account("ana", credits=100)
    return await run_to_end(app, tool)


async def run_to_end(app: Ficha, tool: str, **payload: Any) -> Any:
    receipt = await app.submit(tool, payload, account="ana")
    async with asyncio.timeout(60):
        while (job := await app.job(receipt.job_id)).finished_at is None:
            await app.run_worker(burst=True)
    return job
