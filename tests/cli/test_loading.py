"""Which application the command loads, and what it says when it cannot."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ficha import Ficha
from tests.cli.running import Run

TWICE = """from ficha import Ficha
app = Ficha()

@app.tool()
def draw(job): ...

@app.tool(name="draw")
def paint(job): ...
"""


@pytest.mark.parametrize(
    ("source", "named", "words"),
    [
        (None, "nowhere:app", "there is no module 'nowhere' in {here} or among the installed packages; name your"),
        (None, "nowhere.inside:app", "there is no module 'nowhere' in {here}"),
        ("", "market.inside:app", "there is no module 'market.inside'"),
        ("", "market:app", "the module 'market' has no 'app'; name your application"),
        ("app = 5", "market:app", "market:app is an int, not a Ficha; name your"),
        ("from ficha import Ficha as app", "market:app", "market:app is a class, not a Ficha"),
        ("from ficha import Ficha\nstall = Ficha()", "market:app", "has no 'app'; there is market:stall"),
        ("from ficha import Ficha\nstall = Ficha()", "market:stall.roof", "has no 'stall.roof'; there is market:stall"),
        ("\nimport no_such_thing", "market:app", "market.py:2: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("from json import nothing", "market:app", "market.py:1: ImportError: cannot import name 'nothing'"),
        ("\n\nx = = 1", "market:app", "market.py:3: SyntaxError: invalid syntax"),
        ("\x00", "market:app", "null bytes"),
        ("import json\njson.loads('{')", "market:app", "market.py:2: JSONDecodeError: Expecting property name"),
        ("raise SystemExit(4)", "market:app", "the module 'market' exited during its import (exit 4)"),
        (TWICE, "market:app", "market.py:7: ValueError: the tool 'draw' is declared twice; give one of them another"),
        (
            "from ficha import Ficha, Plan\napp = Ficha(plans=[Plan('a'), Plan('a')])",
            "market:app",
            "market.py:2: ValueError: the plan 'a' is declared twice",
        ),
        ("", "market", "'market' is not the place of an application; write module:attribute, such as shop:app"),
        ("", "market.py:app", "is not the place of an application"),
        ("", "./market:app", "is not the place of an application"),
        ("", ":app", "is not the place of an application"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_an_application_that_cannot_be_loaded_is_told_in_a_line(
    ficha: Run, folder: Path, source: str | None, named: str, words: str
) -> None:
    if source is not None:
        (folder / "market.py").write_text(source)
    refused = ficha("stats", "--app", named, expect=1)
    assert refused.out == ""
    assert words.format(here=folder) in refused.err
    assert refused.err.startswith("error: ")
    assert refused.err.endswith(" [APPLICATION]\n")
    assert len(refused.err.splitlines()) == 1
    assert ficha("stats", "--app", named, "--json", expect=1).error["code"] == "APPLICATION"


def test_a_broken_default_application_does_not_stop_whoever_names_the_database(
    ficha: Run, folder: Path, shop: Callable[[], Ficha]
) -> None:
    ficha("account", "create", "ana")
    (folder / "app.py").write_text("1 / 0")
    del sys.modules["app"]
    refused = ficha("jobs", expect=1)
    assert refused.err == (
        "error: app.py:1: ZeroDivisionError: division by zero "
        "(to run without it, name the database with --database) [APPLICATION]\n"
    )
    assert ficha("jobs", "--database", "sqlite:///ficha.db").err == "no jobs\n"
    assert ficha("recover", "--database", "sqlite:///ficha.db", expect=1).err.endswith("by zero [APPLICATION]\n")


def test_what_a_module_prints_is_not_data(ficha: Run, folder: Path) -> None:
    (folder / "market.py").write_text("print('hello')\nfrom ficha import Ficha\nclass inner:\n    app = Ficha()")
    ficha("account", "create", "ana", "--app", "market:inner.app")
    assert ficha("account", "list", "--json", "--app", "market:inner.app").data["id"] == "ana"


def test_a_module_that_mounts_its_application_is_not_warned_of_a_secret_that_the_command_does_not_need(
    ficha: Run, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FICHA_SECRET", raising=False)
    (folder / "market.py").write_text("from ficha import Ficha\napp = Ficha()\nmounted = app.asgi()")
    ficha("account", "create", "ana", "--app", "market:app")
    assert [line.getMessage() for line in caplog.records if line.name == "ficha.server"] == []


def test_an_app_py_of_another_kind_is_no_application(ficha: Run, folder: Path) -> None:
    (folder / "app.py").write_text("app = object()")
    assert ficha("account", "create", "ana").err.splitlines()[0] == (
        "note: app:app is an object, not a Ficha, so the standard settings were used; "
        "name your application with --app or FICHA_APP"
    )
