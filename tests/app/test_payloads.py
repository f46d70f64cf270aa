"""A handler's signature as the schema of its payload: what fits, what the handler gets, and what is told otherwise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from ficha import Ficha, InvalidPayload, JobContext
from ficha.tools import PayloadMismatch, Tool

if TYPE_CHECKING:
    from somewhere import Unknown


class Size(BaseModel):
    width: int
    height: int = 64


class Mood(Enum):
    CALM = "calm"
    WILD = "wild"


@dataclass
class Frame:
    seconds: float
    tags: list[str] = field(default_factory=list)


class Palette(TypedDict):
    name: str


class Branch(BaseModel):
    leaves: int
    branches: list["Branch"] = []


def declared(handler: Callable[..., Any], **options: Any) -> Tool:
    app = Ficha("memory:")
    app.tool(**{"name": "it"} | options)(handler)
    return app.tools[options.get("name", "it")]


def of_type(hint: Any) -> Tool:
    """A tool with one field, `x`, of this type."""

    def handler(job: JobContext, x: Any) -> None: ...

    handler.__annotations__["x"] = hint
    return declared(handler)


# What the handler gets

HALF_PAST = datetime(2026, 3, 10, 12, 30, tzinfo=UTC)
KEY = "0198c0de-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("hint", "text", "value", "schema"),
    [
        (int, "3", 3, {"type": "integer"}),
        (float, "3", 3.0, {"type": "number"}),
        (str, '"3"', "3", {"type": "string"}),
        (bool, "true", True, {"type": "boolean"}),
        (int | None, "null", None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | str, '"3"', "3", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["a", "b"], '"b"', "b", {"enum": ["a", "b"], "type": "string"}),
        (Mood, '"wild"', Mood.WILD, {"$ref": "#/$defs/Mood"}),
        (datetime, '"2026-03-10T12:30:00Z"', HALF_PAST, {"type": "string", "format": "date-time"}),
        (date, '"2026-03-10"', date(2026, 3, 10), {"type": "string", "format": "date"}),
        (timedelta, '"PT5S"', timedelta(seconds=5), {"type": "string", "format": "duration"}),
        (UUID, f'"{KEY}"', UUID(KEY), {"type": "string", "format": "uuid"}),
        (Decimal, '"1.10"', Decimal("1.10"), {"anyOf": [{"type": "number"}, {"type": "string"}]}),
        (bytes, '"abc"', b"abc", {"type": "string", "format": "binary"}),
        (Size, '{"width":8}', Size(width=8), {"$ref": "#/$defs/Size"}),
        (Frame, '{"seconds":2}', Frame(2.0), {"$ref": "#/$defs/Frame"}),
        (Palette, '{"name":"red"}', {"name": "red"}, {"$ref": "#/$defs/Palette"}),
        (Branch, '{"leaves":1,"branches":[{"leaves":2}]}', Branch(leaves=1, branches=[Branch(leaves=2)]), None),
        (list[Size], '[{"width":8}]', [Size(width=8)], {"type": "array", "items": {"$ref": "#/$defs/Size"}}),
        (dict[str, Size], '{"a":{"width":8}}', {"a": Size(width=8)}, None),
        (tuple[int, int], "[1,2]", (1, 2), None),
        (set[int], "[1,2,2]", {1, 2}, None),
        (Annotated[int, Field(ge=1, le=8)], "8", 8, {"type": "integer", "minimum": 1, "maximum": 8}),
        (Any, '{"a":[1]}', {"a": [1]}, {}),
    ],
    ids=str,
)
def test_the_handler_gets_the_types_that_it_names(hint: Any, text: str, value: Any, schema: Any) -> None:
    tool = of_type(hint)
    got = tool.arguments(f'{{"x":{text}}}')
    assert got == {"x": value}
    assert type(got["x"]) is type(value)
    shown = tool.schema()["properties"]["x"]
    shown.pop("title", None)
    assert schema is None or shown == schema


@pytest.mark.parametrize(
    ("hint", "text", "words"),
    [
        (int, '"3"', "x: Input should be a valid integer"),
        (int, "3.0", "x: Input should be a valid integer"),
        (int, "true", "x: Input should be a valid integer"),
        (int, "null", "x: Input should be a valid integer"),
        (float, '"3"', "x: Input should be a valid number"),
        (str, "3", "x: Input should be a valid string"),
        (bool, "1", "x: Input should be a valid boolean"),
        (datetime, "1773146000", "x: Input should be a valid datetime"),
        (datetime, '"yesterday"', "x: Input should be a valid datetime"),
        (UUID, '"1"', "x: Input should be a valid UUID"),
        (Mood, '"WILD"', "x: Input should be 'calm' or 'wild'"),
        (Literal["a", "b"], '"c"', "x: Input should be 'a' or 'b'"),
        (Size, '{"width":"8"}', "x.width: Input should be a valid integer"),
        (Size, "{}", "x.width: Field required"),
        (list[Size], '[{"width":1},{"width":null}]', "x.1.width: Input should be a valid integer"),
        (dict[str, Frame], '{"a":{"seconds":"2"}}', "x.a.seconds: Input should be a valid number"),
        (Annotated[int, Field(ge=1, le=8)], "9", "x: Input should be less than or equal to 8"),
        (Annotated[list[int], Field(min_length=2)], "[1]", "x: List should have at least 2 items"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_told_by_its_path(hint: Any, text: str, words: str) -> None:
    with pytest.raises(PayloadMismatch) as caught:
        of_type(hint).arguments(f'{{"x":{text}}}')
    assert str(caught.value).startswith(f"the payload does not fit tool it: {words}")


def test_each_problem_is_told_and_none_repeats_a_large_value() -> None:
    def handler(job: JobContext, n: int, size: Size, mood: Mood = Mood.CALM) -> None: ...

    tool = declared(handler)
    large = "x" * 100_000
    with pytest.raises(PayloadMismatch) as caught:
        tool.arguments(f'{{"n":"{large}","size":{{"width":"{large}"}},"mood":"{large}","{large}":1}}')
    told = str(caught.value)
    assert told.startswith(
        "the payload does not fit tool it: n: Input should be a valid integer; size.width: Input should be a valid "
        "integer; mood: Input should be 'calm' or 'wild'; xxxx"
    )
    assert told.endswith("x…: Extra inputs are not permitted")
    assert len(told) < 400


@pytest.mark.parametrize(("count", "words"), [(11, "; and 1 more"), (1_001, ": 1001 problems, too many to name")])
def test_of_very_many_problems_some_are_told(count: int, words: str) -> None:
    with pytest.raises(PayloadMismatch) as caught:
        of_type(list[int]).arguments('{"x":[' + ",".join(["null"] * count) + "]}")
    assert str(caught.value).endswith(words)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("text", ["[]", "null", '"x"', "3", "", "{"])
def test_a_payload_that_is_no_object_does_not_fit(text: str) -> None:
    with pytest.raises(PayloadMismatch, match="the payload does not fit tool it: I"):
        of_type(int).arguments(text)


def test_any_parameter_name_is_a_field() -> None:
    def handler(
        job: JobContext,
        model_config: int,
        model_x: int,
        schema: str,
        copy: Size,
        json: str,
        _hidden: int,
        self: int = 0,
    ) -> None: ...

    tool = declared(handler)
    text = '{"_hidden":4,"copy":{"width":3},"json":"j","model_config":1,"model_x":2,"schema":"s"}'
    assert tool.arguments(text) == {
        "model_config": 1,
        "model_x": 2,
        "schema": "s",
        "copy": Size(width=3),
        "json": "j",
        "_hidden": 4,
        "self": 0,
    }
    assert set(tool.schema()["properties"]) == {"model_config", "model_x", "schema", "copy", "json", "_hidden", "self"}


def test_what_is_left_out_is_the_default_of_the_signature_and_never_shared() -> None:
    def handler(job: JobContext, tags: list[str] = [], mood: Mood = Mood.CALM, seed: int = None) -> None: ...  # type: ignore[assignment]  # noqa: B006, RUF013

    tool = declared(handler)
    first = tool.arguments("{}")
    assert first == {"tags": [], "mood": Mood.CALM, "seed": None}
    first["tags"].append("changed")
    assert tool.arguments("{}")["tags"] == []


def test_an_open_handler_takes_further_fields_of_its_type_but_none_in_the_place_of_the_job() -> None:
    def handler(job: JobContext, n: int = 1, **others: str) -> None: ...

    tool = declared(handler)
    assert tool.arguments('{"a":"b","n":2}') == {"a": "b", "n": 2}
    with pytest.raises(PayloadMismatch, match="a: Input should be a valid string"):
        tool.arguments('{"a":1}')
    with pytest.raises(PayloadMismatch, match="job: This name is reserved"):
        tool.arguments('{"job":"b"}')
    schema = tool.schema()
    assert schema["additionalProperties"] == {"type": "string"}
    assert schema["properties"]["job"]["not"] == {}
    assert declared(lambda job, /, **others: None).arguments('{"job":1}') == {"job": 1}


# The schema


def test_the_schema_carries_words_titles_defaults_and_limits() -> None:
    def handler(
        job: JobContext,
        prompt: Annotated[str, Field(description="what to draw", examples=["a cat"])],
        n: Annotated[int, Field(ge=1, le=8)] = 1,
        mood: Mood = Mood.CALM,
        marker: Any = object(),  # noqa: B008
    ) -> None:
        """Draws pictures.

        As many as you like.
        """

    assert declared(handler, name="draw").schema() == {
        "title": "draw",
        "description": "Draws pictures.\n\nAs many as you like.",
        "type": "object",
        "properties": {
            "prompt": {"title": "Prompt", "type": "string", "description": "what to draw", "examples": ["a cat"]},
            "n": {"title": "N", "type": "integer", "minimum": 1, "maximum": 8, "default": 1},
            "mood": {"$ref": "#/$defs/Mood", "default": "calm"},
            "marker": {"title": "Marker"},
        },
        "required": ["prompt"],
        "additionalProperties": False,
        "$defs": {"Mood": {"enum": ["calm", "wild"], "title": "Mood", "type": "string"}},
    }


# What can be a handler


class Painter:
    def __call__(self, job: JobContext, size: "Size") -> None: ...

    def paint(self, job: JobContext, size: "Size") -> None: ...


def curried(style: str, job: JobContext, size: "Size") -> None: ...


@pytest.mark.parametrize(
    "handler",
    [Painter(), Painter().paint, partial(curried, "oil"), partial(partial(curried), "oil")],
    ids=["object", "method", "partial", "nested partial"],
)
def test_whatever_can_be_called_can_be_a_handler(handler: Callable[..., Any]) -> None:
    assert declared(handler).arguments('{"size":{"width":2}}') == {"size": Size(width=2)}


def test_what_the_job_is_called_by_type_checkers_need_not_exist() -> None:
    def handler(job: "Unknown", n: int) -> "Unknown": ...

    assert declared(handler).arguments('{"n":1}') == {"n": 1}


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Painter, "a payload cannot have these types: Unable to generate pydantic-core schema for <class"),
        (Callable[[int], int], "a payload cannot have these types"),
        (Iterator[int], "a payload cannot have these types"),
        (type, "a payload cannot have these types"),
        (5, "a payload cannot have these types"),
        (Annotated[int, Field(ge="a")], "a payload cannot have these types: .*'ge' must be"),
    ],
    ids=str,
)
def test_types_that_no_payload_can_have_are_refused_at_declaration(hint: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"tool 'it': {words}") as caught:
        of_type(hint)
    assert "\n" not in str(caught.value)


def test_a_signature_that_can_be_no_schema_is_refused_with_words() -> None:
    def unknown(job: JobContext, x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def in_the_default(job: JobContext, x: int = Field(3, ge=1)) -> None: ...

    def aliased(job: JobContext, x: Annotated[int, Field(alias="y")]) -> None: ...

    def doubled(job: JobContext, x: Annotated[int, Field(default=3)]) -> None: ...

    def by_name(*, job: JobContext) -> None: ...

    for handler, words in (
        (unknown, "name 'Nowhere' is not defined: the types of a handler's parameters must be names of its module"),
        (in_the_default, r"the default of x is a Field; write x: Annotated\[…, Field\(…\)\] = default"),
        (aliased, "the Field of x has an alias; a field has its parameter's name"),
        (doubled, "the Field of x has a default; write it as the parameter's default"),
        (by_name, "the first one must be the job"),
    ):
        with pytest.raises(TypeError, match=f"tool 'it': .*{words}"):
            declared(handler)


# Handlers of several jobs


@pytest.mark.parametrize(
    ("model", "text", "item"),
    [
        (Size, '{"width":2}', Size(width=2)),
        (Frame, '{"seconds":2}', Frame(2.0)),
        (Palette, '{"name":"red"}', {"name": "red"}),
        (Branch, '{"leaves":1}', Branch(leaves=1)),
    ],
)
@pytest.mark.parametrize("many", [list, Sequence])
def test_a_handler_of_several_jobs_names_the_model_of_one_payload(model: Any, text: str, item: Any, many: Any) -> None:
    def handler(jobs: list[JobContext], payloads: Any) -> None: ...

    handler.__annotations__["payloads"] = many[model]
    tool = declared(handler, jobs_per_call=16)
    assert tool.takes_payloads
    assert tool.arguments(text) == item
    with pytest.raises(PayloadMismatch, match=r"the payload does not fit tool it: .*: Field required"):
        tool.arguments("{}")
    schema = tool.schema()
    assert (schema["title"], schema["type"]) == ("it", "object")
    assert len(schema["required"]) == 1


def test_a_handler_of_several_jobs_alone_takes_any_object() -> None:
    tool = declared(lambda jobs: None, jobs_per_call=16)
    assert not tool.takes_payloads
    assert tool.arguments('{"a":[1]}') == {"a": [1]}
    assert tool.schema() == {"title": "it", "type": "object", "additionalProperties": True}
    with pytest.raises(PayloadMismatch):
        tool.arguments("[]")


def test_a_handler_of_several_jobs_takes_nothing_else() -> None:
    def of_numbers(jobs: list[JobContext], payloads: list[int]) -> None: ...

    def of_more(jobs: list[JobContext], payloads: list[Size], more: int) -> None: ...

    def open_handler(jobs: list[JobContext], **payloads: Any) -> None: ...

    for handler in (of_numbers, of_more, open_handler, lambda jobs, payloads: None):
        with pytest.raises(TypeError, match=r"takes \(jobs\) or \(jobs, payloads: list\[Model\]\)"):
            declared(handler, jobs_per_call=16)
    with pytest.raises(TypeError, match="the first one must be the jobs"):
        declared(lambda: None, jobs_per_call=16)


# Prices by what the handler gets


@pytest.mark.req("D7")
async def test_a_price_is_made_of_the_values_that_the_handler_gets() -> None:
    app = Ficha("memory:")

    @app.tool(cost=lambda size, mood, missing=7: size.width * size.height + (mood is Mood.WILD) + missing)
    def paint(job: JobContext, size: Size, mood: Mood = Mood.CALM) -> None: ...

    @app.tool(cost=lambda **fields: len(fields))
    def counted(job: JobContext, a: int = 1, **others: Any) -> None: ...

    @app.tool(jobs_per_call=4, cost=lambda seconds, tags: int(seconds) + len(tags))
    def film(jobs: list[JobContext], payloads: list[Frame]) -> None: ...

    @app.tool(jobs_per_call=4, cost=lambda n=3: n)
    def loose(jobs: list[JobContext]) -> None: ...

    async with app:
        await app.open_account("ana", credits=1_000)
        for tool, payload, cost in (
            ("paint", {"size": {"width": 2, "height": 3}, "mood": "wild"}, 14),
            ("paint", {"size": {"width": 1}}, 71),
            ("counted", {"b": 1, "c": 2}, 3),
            ("film", {"seconds": 2, "tags": ["x"]}, 3),
            ("loose", {"n": 5}, 5),
            ("loose", {}, 3),
        ):
            assert (await app.submit(tool, payload, account="ana")).cost == cost
        with pytest.raises(InvalidPayload, match=r"size\.width: Field required; nothing was changed\."):
            await app.submit("paint", {"size": {}}, account="ana")
