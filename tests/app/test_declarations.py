"""What an application declares is checked when it does, and what it gets to import is what is promised."""

import asyncio
import inspect
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import ficha
from ficha import (
    CheckpointManager,
    DeclaredTool,
    Ficha,
    JobContext,
    Plan,
    Pool,
    Refused,
    ThreadJobContext,
    ToolSubmit,
)
from ficha.core.checkpoints import Checkpoints
from ficha.core.codes import CODES, Code
from ficha.core.outcomes import Refusal
from ficha.operations.bound import MACHINERY

HTTP_ONLY = {"FORBIDDEN", "UNAUTHENTICATED"}
"""Codes that only a request from outside can meet."""
INFINITE = float("inf")
NAN = float("nan")


def at_the_top(job: JobContext) -> None: ...


async def later(n: int) -> int:
    return n


def test_the_public_names_are_sorted_and_all_there() -> None:
    assert list(ficha.__all__) == sorted(set(ficha.__all__))
    assert all(hasattr(ficha, name) for name in ficha.__all__)
    public = {name for name, value in vars(ficha).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public | {"__version__"} == set(ficha.__all__)


@pytest.mark.parametrize("code", sorted(set(get_args(Code)) - HTTP_ONLY))
def test_each_code_has_an_exception_of_its_own(code: Any) -> None:
    name = "".join(part.capitalize() for part in code.split("_"))
    kind = getattr(ficha, name)
    assert issubclass(kind, Refused)
    refused = Refused.of(Refusal(code, "in words", retry_after_s=3.0, details={"a": 1}))
    assert type(refused) is kind
    assert (refused.code, refused.message, str(refused)) == (code, "in words", "in words")
    assert (refused.retry_after_s, refused.details, refused.retryable) == (3.0, {"a": 1}, CODES[code].retryable)


def ficha_types(annotation: Any) -> Iterator[type]:
    """The classes of Ficha within an annotation."""
    for part in (annotation, *get_args(annotation), get_origin(annotation)):
        if isinstance(part, type) and part.__module__.split(".")[0] == "ficha":
            yield part
        elif part is not annotation and part is not None:
            yield from ficha_types(part)


def test_what_calls_take_and_return_can_be_imported_from_ficha() -> None:
    app = Ficha("memory:")
    known = {id(value) for name, value in vars(ficha).items() if name in ficha.__all__}
    names = {"Settings": Any, "ASGIApp": Any}
    missing = set()
    kinds = (Ficha, JobContext, ThreadJobContext, DeclaredTool, ToolSubmit, CheckpointManager)
    for kind in kinds:
        for name in dir(app) if kind is Ficha else vars(kind):
            method = inspect.getattr_static(kind, name, None)
            method = method.fget if isinstance(method, property) else method
            if name.startswith("_") or not inspect.isfunction(method):
                continue
            for annotation in get_type_hints(method, localns=names).values():
                missing |= {(name, found.__name__) for found in ficha_types(annotation) if id(found) not in known}
    # What a handler's context is made of is the worker's affair.
    assert {(name, found) for name, found in missing if name not in ("steps", "facts")} == set()


def test_an_application_lists_what_its_user_calls() -> None:
    app = Ficha("memory:")
    shown = {name for name in dir(app) if not name.startswith("_")}
    assert {"submit", "grant", "tool", "tools", "run_worker", "claim", "finish", "acting", "pools", "open"} <= shown
    assert shown.isdisjoint(MACHINERY)
    assert set(object.__dir__(app)) > MACHINERY, "each is there, for the other rooms"


def test_there_is_no_exception_without_a_code() -> None:
    kinds = {kind.__name__ for kind in Refused.__subclasses__()}
    assert kinds == {"".join(part.capitalize() for part in code.split("_")) for code in set(get_args(Code)) - HTTP_ONLY}


@pytest.mark.parametrize("code", sorted(HTTP_ONLY))
def test_a_code_of_http_is_a_plain_refusal(code: Any) -> None:
    assert type(Refused.of(Refusal(code, "in words"))) is Refused


# Plans


@pytest.mark.parametrize(
    ("plans", "words"),
    [
        ([], "at least one plan"),
        ([Plan("a"), Plan("a")], "the plan 'a' is declared twice"),
        ([Plan("ficha:a")], "names with 'ficha:' are Ficha's own"),
        (["free"], "'free' is not a Plan"),
        ([Plan("")], "1 to 255 characters"),
        ([Plan("x" * 256)], "1 to 255 characters"),
        ([Plan(7)], "1 to 255 characters"),
        ([Plan("a", priority=1_001)], "priority must be a whole number within ±1000"),
        ([Plan("a", priority=-1_001)], "priority must be a whole number within ±1000"),
        ([Plan("a", priority=1.5)], "priority must be a whole number"),
        ([Plan("a", priority="high")], "priority must be a whole number"),
        ([Plan("a", priority=True)], "priority must be a whole number"),
        *(
            ([Plan("a", **{field: value})], f"{field} must be a whole number from 1 up or None")
            for field in ("max_running", "max_active", "per_hour")
            for value in (0, -1, 2.5, "3", True)
        ),
        *(
            ([Plan("a", **{field: value})], f"{field} must be whole credits from 0 up or None")
            for field in ("daily_limit", "daily_warning", "monthly_limit", "monthly_warning")
            for value in (-1, 2.5, "3", True, 2**53)
        ),
        *(
            ([Plan("a", **{field: value})], f"{field} must be a whole number from 0 up or None")
            for field in ("file_bytes", "max_files", "storage_bytes")
            for value in (-1, 2.5, "3", True, 2**53)
        ),
        *(([Plan("a", ageing_s=value)], "ageing_s must be") for value in (0, -1, NAN, INFINITE, "10", True, 1e12)),
    ],
    ids=str,
)
def test_a_plan_that_cannot_work_is_refused_with_words(plans: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Ficha("memory:", plans=plans)


def test_plans_at_their_edges_are_taken() -> None:
    Ficha(
        "memory:",
        plans=[
            Plan("x" * 255, priority=1_000),
            Plan("b", priority=-1_000, max_running=1, max_active=1, per_hour=1, ageing_s=0.001),
            Plan("c", daily_limit=0, daily_warning=0, monthly_limit=2**53 - 1, monthly_warning=0),
            Plan("d", file_bytes=0, max_files=0, storage_bytes=2**53 - 1),
        ],
    )


# Pools


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ([Pool("a"), Pool("a", 3)], "the pool 'a' is declared twice"),
        (["gpu"], "'gpu' is not a Pool"),
        ([Pool("")], "1 to 255 characters"),
        ([Pool("x" * 256)], "1 to 255 characters"),
        ([Pool("a\x00b")], "NUL"),
        ([Pool(7)], "1 to 255 characters"),
        *(
            ([Pool("a", slots=value)], "slots must be a whole number from 0 to 1000000 or None")
            for value in (-1, 2.5, "3", True, 1_000_001)
        ),
    ],
    ids=str,
)
def test_a_pool_that_cannot_work_is_refused_with_words(pools: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Ficha("memory:", pools=pools)


async def test_the_default_pool_can_be_given_slots() -> None:
    async with Ficha("memory:", pools=[Pool("default", slots=2), Pool("none", slots=0)]) as app:
        assert [(pool.name, pool.slots) for pool in await app.pools()] == [("default", 2), ("none", 0)]


# Tools


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, None),  # no name is the function's
        ({"name": "x" * 256}, "1 to 255 characters"),
        ({"name": "a\nb"}, "control character"),
        ({"name": 7}, "1 to 255 characters"),
        ({"pool": "tpu"}, "add Pool('tpu')"),
        *(({"cost": value}, "cost must be whole credits from 0 up") for value in (-1, 2.5, "5", True, 10**12 + 1)),
        *(
            ({option: value}, f"{option} must be a number of seconds")
            for option in ("timeout", "max_wait", "backoff", "backoff_max")
            for value in (0, -1, NAN, INFINITE, "10", True, 1e12)
        ),
        ({"backoff": 10, "backoff_max": 5}, "backoff must not be longer than backoff_max"),
        *(({"attempts": value}, "attempts must be a whole number from 1") for value in (0, -1, 2.5, "3", True, 2**31)),
        *(({"priority": value}, "priority must be a whole number within ±1000") for value in (1_001, 1.5, "1", True)),
        ({"items": "m"}, "its payload has no field 'm'"),
        ({"max_items": 4}, "max_items needs items"),
        *(
            ({"items": "n", "max_items": value}, "max_items must be a whole number")
            for value in (0, -1, 2.5, "4", True)
        ),
        ({"items": "title"}, "its field 'title' is neither a whole number nor a list"),
        ({"dedupe": "yes"}, 'dedupe must be True, False or "global"'),
        *(({"audience": value}, "audience must be one of user, service") for value in ("admin", None, [])),
        *(({"plans": value}, "plans must be a list of names of plans") for value in ("pro", [], 3)),
        ({"plans": ["gold"]}, "there is no plan 'gold'; declared are: "),
        ({"pool": ["gpu"]}, "which is not declared"),
        pytest.param({"cost": lambda n, m: n}, "cost function has a parameter 'm'", id="a cost of an unknown field"),
        pytest.param({"cost": lambda *n: 1}, "its cost takes *n", id="a cost of unnamed fields"),
        pytest.param({"cost": lambda n, /: 1}, "its cost takes n", id="a cost of a field by place"),
        pytest.param({"cost": later}, "its cost is a coroutine function", id="a cost that must be awaited"),
        *(({"isolation": value}, "isolation must be 'auto' or 'process'") for value in ("thread", None, True)),
        ({"isolation": "process"}, "draw is local to a function; move it to the top of its module"),
        *(
            ({"max_recoveries": value}, "max_recoveries must be a whole number from 0")
            for value in (-1, 1.5, "3", True)
        ),
        ({"memory_mb": 512}, "memory_mb needs isolation='process'"),
        ({"recycle_after": 10}, "recycle_after needs isolation='process'"),
        ({"environment": ["CACHE"]}, "environment needs isolation='process'"),
        *(({"environment": value}, "environment must be a list of names") for value in ("CACHE", 3, {"A"})),
        *(({"environment": [value]}, "environment names variables") for value in ("A=b", "", "*A", "A B", 3, None)),
        *(
            ({option: value}, f"{option} must be a whole number from 1 up or None")
            for option in ("memory_mb", "recycle_after")
            for value in (0, -1, 2.5, "3", True)
        ),
        ({"linger_ms": 5}, "linger_ms needs jobs_per_call"),
        *(({"setup": value}, "setup must be a function") for value in ("load", 3)),
        pytest.param({"setup": later}, "setup is a coroutine function, but the handler", id="a coroutine setup"),
        pytest.param({"setup": lambda x: x}, "setup is called without arguments", id="a setup that needs an argument"),
        *(({"devices": value}, "devices must be a list of names such as 'cuda:0'") for value in ("cuda:0", 2, None)),
        ({"devices": ["cuda:0", ""]}, "the device '' must be text of 1 to 255 characters"),
        ({"devices": ["cuda:0", "cuda:0"]}, "devices names a device twice"),
        *(({"max_calls": value}, "max_calls must be a whole number from 1") for value in (0, 1_001, 2.5, "3", True)),
        *(({"linger_ms": value}, "linger_ms must be a whole number from 0") for value in (-1, 60_001, 2.5, "3", True)),
        *(
            ({"stop_grace": value}, "stop_grace must be a number of seconds")
            for value in (-1, NAN, INFINITE, "5", True, False, None, 1e12)
        ),
        *(
            ({"fatal": value}, "fatal must be an exception class or a tuple of them")
            for value in ("ValueError", [ValueError], (ValueError, 3), ValueError("x"), KeyboardInterrupt, int, None)
        ),
        *(
            ({"checkpoints": value}, words)
            for value, words in (
                ("ABC", "checkpoints must be a list of names"),
                (3, "checkpoints must be a list of names"),
                ([], "checkpoints must have 1 to 1000 names"),
                ({}, "checkpoints must have 1 to 1000 names"),
                ([f"C{number}" for number in range(1_001)], "checkpoints must have 1 to 1000 names"),
                (["A", "B", "A"], "checkpoints names a checkpoint twice"),
                (["A", ""], "the checkpoint '' must be text of 1 to 255 characters"),
                (["A", 7], "the checkpoint 7 must be text"),
                (["A", "B\n"], "contains a control character"),
                ({"A": "B", "B": []}, "what may follow 'A' must be a list of names"),
                ({"A": None}, "what may follow 'A' must be a list of names"),
                ({"A": ["B", "B"], "B": []}, "what may follow 'A' names a checkpoint twice"),
                ({"A": ["B"]}, "the checkpoint 'B' follows another but is not declared; add 'B': []"),
                ({"A": [], "B": ["C"], "C": ["B"]}, "the checkpoint 'B' can never be reached from 'A'"),
            )
        ),
    ],
    ids=str,
)
def test_a_tool_that_cannot_work_is_refused_with_words(options: dict[str, Any], words: str | None) -> None:
    app = Ficha("memory:")

    def draw(job: JobContext, n: int = 1, title: str = "") -> None: ...

    if words is None:
        app.tool(**options)(draw)
        assert list(app.tools) == ["draw"]
        return
    with pytest.raises(ValueError, match=re.escape(words)):
        app.tool(**options)(draw)
    assert dict(app.tools) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(
            ({"jobs_per_call": value}, "jobs_per_call must be a whole number from 1 to 1000")
            for value in (0, -1, 1_001, 2.5, "3", True)
        ),
        ({"jobs_per_call": 4, "isolation": "process"}, "jobs_per_call does not go with isolation='process'"),
    ],
    ids=str,
)
def test_a_tool_for_several_jobs_per_call_that_cannot_work_is_refused_with_words(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Ficha("memory:").tool(**options)(at_the_top)


def test_a_handler_that_a_new_process_could_not_import_is_refused() -> None:
    app = Ficha("memory:")
    for handler, words in (
        (lambda job: None, "a lambda has no name"),
        (partial(at_the_top), "is not a named function"),
        (print, "is not a named function"),
    ):
        with pytest.raises(ValueError, match=words):
            app.tool(name="it", isolation="process")(handler)
    app.tool(isolation="process", memory_mb=512, recycle_after=100, environment=["CACHE", "AWS_*", "*"])(at_the_top)
    assert app.tools["at_the_top"].memory_mb == 512
    assert app.tools["at_the_top"].environment == ("CACHE", "AWS_*", "*")


def test_options_at_their_edges_are_taken() -> None:
    app = Ficha("memory:")
    for name, options in {
        "least": {"jobs_per_call": 1, "linger_ms": 0, "stop_grace": 0, "fatal": ()},
        "most": {"jobs_per_call": 1_000, "linger_ms": 60_000, "stop_grace": 0.001, "fatal": (ValueError, KeyError)},
        "one": {"fatal": OSError, "checkpoints": ["A"]},
        "many": {"checkpoints": {"A": ("B", "C"), "B": ["D"], "C": {"D"}, "D": []}},
    }.items():
        app.tool(name=name, **options)(at_the_top)
    tools = app.tools
    assert (tools["least"].jobs_per_call, tools["least"].linger_ms, tools["least"].stop_grace) == (1, 0, 0)
    assert (tools["least"].fatal, tools["most"].fatal, tools["one"].fatal) == ((), (ValueError, KeyError), (OSError,))
    assert tools["least"].checkpoints is None
    assert tools["one"].checkpoints == Checkpoints({"A": ()}, first=("A",))
    assert tools["many"].checkpoints is not None
    assert tools["many"].checkpoints.first == ("A",)


def test_a_heartbeat_longer_than_the_lease_is_refused_and_by_default_is_a_third_of_it() -> None:
    with pytest.raises(ValueError, match=r"heartbeat_s .* longer than lease_s"):
        Ficha("memory:", lease_s=1, heartbeat_s=2)
    assert Ficha("memory:", lease_s=3).heartbeat_s == 1.0
    assert Ficha("memory:").heartbeat_s == 10.0


def test_a_tool_is_declared_once() -> None:
    app = Ficha("memory:")

    @app.tool()
    def draw(job: JobContext) -> None: ...

    with pytest.raises(ValueError, match="declared twice; give one of them another name"):
        app.tool(name="draw")(lambda job: None)
    app.tool(name="paint")(draw)
    assert sorted(app.tools) == ["draw", "paint"]


def test_a_handler_must_take_the_job_and_name_its_fields() -> None:
    app = Ficha("memory:")
    for handler, words in (
        (lambda: None, "the first one must be the job"),
        (lambda job, *images: None, "a payload's fields are passed by name"),
        (lambda job, image, /: None, "a payload's fields are passed by name"),
    ):
        with pytest.raises(TypeError, match=words):
            app.tool(name="it")(handler)
    with pytest.raises(ValueError, match="has no name; give it one"):
        app.tool()(partial(lambda job: None))
    assert dict(app.tools) == {}


async def test_a_handler_stays_a_function_that_can_be_called() -> None:
    app = Ficha("memory:")

    @app.tool()
    async def double(job: JobContext | None, number: int) -> int:
        return 2 * number

    assert await double(None, 4) == 8


# Settings


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        *(
            ({name: value}, f"{name} must be a number of seconds")
            for name in (
                "lease_s",
                "heartbeat_s",
                "stuck_s",
                "max_age_s",
                "key_ttl_s",
                "key_ttl_max_s",
                "reservation_ttl_s",
                "reservation_ttl_max_s",
                "reservations_kept_s",
                "schedule_max_s",
                "commits_kept_s",
                "minute_figures_kept_s",
                "hour_figures_kept_s",
            )
            for value in (0, -1, NAN, INFINITE, "60", True, 1e12)
        ),
        *(({"sweep_s": value}, "sweep_s must be a number of seconds") for value in (0, -1, NAN, INFINITE, "1", True)),
        *(({"max_recoveries": value}, "max_recoveries must be a whole number") for value in (-1, 1.5, "3", True)),
        *(({"warn_share": value}, "warn_share must be a number from 0 up") for value in (-0.1, NAN, "0.8", True)),
        *(
            ({"first_job_boost": value}, "first_job_boost must be a whole number within ±1000")
            for value in (1_001, -1_001, 1.5, "20", True)
        ),
        *(({"commits_kept_s": value}, "commits_kept_s must be 3600 or more") for value in (1, 3_599.999)),
        ({"minute_figures_kept_s": 89_999.999}, "minute_figures_kept_s must be 90000 or more"),
        ({"hour_figures_kept_s": 31 * 86_400 - 1}, "hour_figures_kept_s must be 2678400 or more"),
        ({"key_ttl_s": 31 * 86_400}, "key_ttl_s (2.6784e+06) is more than key_ttl_max_s (2.592e+06); raise that too"),
        ({"reservation_ttl_max_s": 299}, "reservation_ttl_s (300) is more than reservation_ttl_max_s (299)"),
        ({"database": Path("ficha.db")}, "sqlite:///"),
        ({"database": b"memory:"}, "sqlite:///"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_work_is_refused_with_words(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Ficha(**{"database": "memory:"} | setting)


def test_commits_are_kept_for_an_hour_at_the_least() -> None:
    assert Ficha("memory:").policy.commits_kept_ms == 86_400_000
    assert Ficha("memory:", commits_kept_s=3_600).policy.commits_kept_ms == 3_600_000


def test_figures_are_kept_for_as_long_as_overviews_look_back() -> None:
    policy = Ficha("memory:").policy
    assert (policy.minute_figures_kept_ms, policy.hour_figures_kept_ms) == (172_800_000, 34_560_000_000)
    least = Ficha("memory:", minute_figures_kept_s=90_000, hour_figures_kept_s=31 * 86_400).policy
    assert (least.minute_figures_kept_ms, least.hour_figures_kept_ms) == (90_000_000, 2_678_400_000)


def test_an_application_can_be_declared_without_an_event_loop_or_a_database() -> None:
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    app = Ficha("postgresql://nobody@nowhere/nothing")
    app.tool(name="draw")(lambda job: None)
    assert list(app.tools) == ["draw"]
