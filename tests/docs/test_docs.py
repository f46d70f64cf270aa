"""What the documentation says: its examples run, and nothing that a user can set, meet or type is missing from it."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_overloads

import msgspec
import pytest
from typer.main import get_command

from ficha import CommitLimits, Ficha, InspectionLimits, Limits, Plan, Webhooks
from ficha.cli.main import app as command_line
from ficha.core import invariants, states
from ficha.core.codes import CODES, Code, HttpCode
from ficha.core.records import ApiKeyScope
from ficha.errors import Refused
from ficha.server import Settings
from ficha.tools import Tool
from tests.core.scenarios import play
from tests.core.test_audit_scenarios import ACTS

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference.md").read_text()
CORE = "\n".join(path.read_text() for path in (ROOT / "src/ficha/core").glob("*.py"))


def rows(text: str) -> set[str]:
    """The names in the first column of every table."""
    return {
        name
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_the_example_of_the_reference_runs(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", REFERENCE, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "Draws pictures.\n"


def test_the_diagram_in_the_documentation_is_the_transition_table() -> None:
    [drawn] = re.findall(r"```mermaid\n(.*?)```", (ROOT / "docs/concepts.md").read_text(), re.DOTALL)
    assert drawn == states.diagram()


@pytest.mark.parametrize("kind", [Limits, CommitLimits, InspectionLimits, Plan])
def test_every_field_of_the_settings_is_documented(kind: type[msgspec.Struct]) -> None:
    fields = set(kind.__struct_fields__) - {"name"}
    assert fields <= rows(REFERENCE)
    assert all(f"{field}:" in (kind.__doc__ or "") or f"{field}," in (kind.__doc__ or "") for field in fields)


TOOL = inspect.signature(get_overloads(Ficha.tool)[1]).parameters
"""The options of a tool, as a type checker and an editor see them."""


@pytest.mark.parametrize("settings", [inspect.signature(Ficha.__init__).parameters, TOOL])
def test_every_setting_of_an_application_is_documented(settings: Mapping[str, inspect.Parameter]) -> None:
    assert set(settings) - {"self"} <= rows(REFERENCE)


def test_every_term_of_webhooks_is_documented() -> None:
    fields = set(Webhooks.__struct_fields__)
    assert fields <= rows((ROOT / "docs/webhooks.md").read_text())
    assert all(f"{field}:" in (Webhooks.__doc__ or "") for field in fields)


def test_every_option_of_a_tool_is_explained_where_it_is_declared() -> None:
    words = inspect.getdoc(Ficha.tool) or ""
    for option in set(TOOL) - {"self"}:
        assert re.search(rf"^({option}|\w+, {option}|{option}, \w+): ", words, re.MULTILINE), option


def test_an_editor_shows_the_default_of_every_option_of_a_tool() -> None:
    defaults = Tool.__struct_defaults__
    made = dict(zip(Tool.__struct_fields__[-len(defaults) :], defaults, strict=True))
    shown = {name: option.default for name, option in TOOL.items() if name not in ("self", "name")}
    assert shown == {name: made[name] for name in shown}
    assert set(made) - set(shown) == {
        "asked",
        "down_with",
        "is_async",
        "provider",
        "provider_asked",
        "setup_takes_device",
    }


def test_every_environment_variable_is_documented() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "src/ficha").rglob("*.py"))
    assert set(re.findall(r'"((?:FICHA|JOB|WORKER)_[A-Z_]+)"', code)) <= rows(REFERENCE)


def test_every_code_is_documented_with_its_exception_status_and_whether_to_repeat() -> None:
    codes = REFERENCE.partition("## Codes")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `([A-Z_]+)` \|(.*)\|$", codes, re.MULTILINE))
    assert set(documented) == set(get_args(Code))
    for code in get_args(Code):
        exception, when, http, repeat = [cell.strip() for cell in documented[code].split("|")]
        facts = CODES[code]
        assert (when, http, repeat == "yes") == (facts.when, str(facts.status), facts.retryable)
        assert exception == (f"`{Refused.by_code[code].__name__}`" if code in Refused.by_code else "")


def test_every_event_is_documented_and_the_histories_know_those_that_move_a_job() -> None:
    events = set(re.findall(r'(?:add_event\(|\btold\(ws, )\w+, "(\w+)"', CORE))
    assert {"log", "late", "completed"} <= events
    assert len(events) > 10
    assert events <= rows(REFERENCE)
    assert set(invariants._STATUS_AFTER) <= events


def test_every_act_of_the_audit_log_is_documented() -> None:
    acts = REFERENCE.partition("## Audit log")[2].partition("\n## ")[0]
    assert rows(acts) == {line.act for line in play(ACTS).state.audit}


def test_every_scope_of_an_api_key_is_documented() -> None:
    scopes = REFERENCE.partition("## API keys")[2].partition("\n## ")[0]
    assert rows(scopes) == set(get_args(ApiKeyScope))


def verbs(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that can be typed, by its words."""
    inner = getattr(command, "commands", {})
    if not inner:
        yield path, command
    for name, sub in inner.items():
        yield from verbs(sub, f"{path} {name}")


def test_every_command_is_documented_with_every_option() -> None:
    command = get_command(command_line)
    described = {
        line.split("`")[1]: set(re.findall("`(--[a-z-]+)`", line))
        for line in REFERENCE.splitlines()
        if line.startswith("| `ficha ")
    }
    of_all = {name for name in rows(REFERENCE) if name.startswith("--")}
    assert options(command) | {"--version", "--debug"} <= of_all
    assert {path: options(verb) - of_all for path, verb in verbs(command, "ficha")} == {
        path: names - of_all for path, names in described.items()
    }


def options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")} - {"--help"}


def test_every_table_is_documented() -> None:
    for store in ("sqlite", "postgres"):
        schema = "".join(
            path.read_text() for path in (ROOT / "src/ficha/store" / store / "migrations").glob("0*.up.sql")
        )
        made = set(re.findall(r"CREATE (?:TABLE|VIEW) (?:ficha\.)?(\w+)", schema))
        assert made
        assert made <= set(re.findall(r"`(\w+)`", REFERENCE))


def test_every_route_is_in_the_documentation_with_whom_it_is_for() -> None:
    text = (ROOT / "docs/http.md").read_text()
    documented = dict(re.findall(r"^\| `((?:GET|POST|DELETE) /\S+)` \| (\w+) \|", text, re.MULTILINE))
    # What a viewer may call is said once, above the table: every GET.
    kinds = {
        frozenset(): "anybody",
        frozenset({"user", "service", "admin"}): "user",
        frozenset({"user", "service", "admin", "job"}): "job",
        frozenset({"service", "admin"}): "service",
        frozenset({"admin"}): "admin",
    }
    paths = json.loads((ROOT / "openapi.json").read_text())["paths"]

    assert documented == {
        f"{method.upper()} {path}": kinds[frozenset(operation.get("x-scopes", ())) - {"viewer"}]
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def test_every_code_of_the_edge_is_in_the_documentation() -> None:
    text = (ROOT / "docs/http.md").read_text()

    assert set(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \| (.*) \|$", text, re.MULTILINE)) == {
        (code, str(CODES[code].status), CODES[code].when) for code in get_args(HttpCode)
    }


def test_every_setting_of_the_server_is_in_the_documentation() -> None:
    text = (ROOT / "docs/serving.md").read_text()

    assert {f"FICHA_{name.upper()}" for name in Settings.__struct_fields__} <= rows(text)


def test_the_example_of_embedding_runs(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/http.md").read_text(), re.DOTALL)
    asked = (
        "from starlette.testclient import TestClient\nwith TestClient(host) as c: print(c.get('/ficha/readyz').json())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{example}\n{asked}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "{'status': 'ok'}\n"
