"""The command lines and settings in the files under deploy/ are ones that this release knows."""

import json
import re
from typing import Any

import pytest
from typer.main import get_command

from ficha.cli.main import app
from tests.deploy.manifests import ROOT, commands, texts

COMMANDS = commands()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_line_is_one_that_ficha_takes(name: str) -> None:
    words = [re.sub("%.", "1", word) for word in COMMANDS[name]]
    found: Any = get_command(app)
    rest, context = words, None
    while hasattr(found, "resolve_command"):
        context = found.make_context("ficha", rest[:], parent=context, resilient_parsing=True)
        _, found, rest = found.resolve_command(context, rest)
    # Reads every option, and refuses what it does not know; nothing is run.
    assert found.make_context(found.name, rest, parent=context).args == []


def test_what_is_run_is_the_server_a_worker_and_the_migrations() -> None:
    assert len(COMMANDS) == 10
    assert {words[0] for words in COMMANDS.values()} == {"serve", "worker", "migrate"}


def test_every_setting_is_documented() -> None:
    documented = "".join((ROOT / "docs" / name).read_text() for name in ("reference.md", "serving.md"))
    named = {word for text in texts().values() for word in re.findall(r"\bFICHA_[A-Z_]+\b", text)}
    assert "FICHA_LISTEN_URL" in named
    assert {word for word in named if f"`{word}`" not in documented} == set()


def test_no_file_has_a_secret_or_the_address_of_a_registry() -> None:
    for name, text in texts().items():
        assert not re.search(r"(?i)(password|secret|token)[ \t]*[:=][ \t]*['\"]?[\w-]{12,}", text), name
        for address in re.findall(r"https?://[^\s'\"]+", text):
            assert re.match(r"http://(127\.0\.0\.1:|ficha-server\.ficha\.svc/)", address), f"{name}: {address}"


def test_what_is_asked_for_over_http_is_there() -> None:
    paths = json.loads((ROOT / "openapi.json").read_text())["paths"]
    for name, text in texts().items():
        for path, query in re.findall(
            r"(?:path:|svc|8000)\s*(/(?:api|healthz|readyz|metrics)[\w/-]*)(\?[^\s'\"]*)?", text
        ):
            known = {parameter["name"] for parameter in paths[path]["get"].get("parameters", ())}
            asked = {part.partition("=")[0] for part in query[1:].split("&")} - {""}
            assert asked <= known, f"{name}: {path}{query}"
