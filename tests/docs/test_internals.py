"""The architecture is short, every room has its page, and the pages name modules that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/ficha"
WEB = ROOT / "web"
ROOMS = sorted([*(path.parent.name for path in PACKAGE.glob("*/__init__.py")), WEB.name])
PAGES = sorted((ROOT / "docs/internals").glob("*.md"))


def test_the_architecture_can_be_read_in_one_sitting() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1_500
    assert len(re.findall(r"^## ", text, re.MULTILINE)) >= 5


def test_every_room_has_a_page() -> None:
    assert [page.stem for page in PAGES] == ROOMS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_every_module_of_its_room_or_none_that_is_not_there(page: Path) -> None:
    """The first column of a page's tables lists modules and folders; what is written as `name.py` is a file too."""
    text = page.read_text(encoding="utf-8")
    named = {
        name.rstrip("/")
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    } | {name.removesuffix(".py") for name in re.findall(r"`(\w+\.py)`", text)}
    if page.stem == WEB.name:
        assert named == {path.parent.name for path in WEB.glob("*/package.json")} | {"plain"}
        paths = re.findall(r"`((?:client|react|console)/[^`]+)`", text)
        assert [path for path in paths if not (WEB / path).exists()] == []
        return
    there = {path.stem for path in PACKAGE.rglob("*.py")} | {
        str(path.relative_to(PACKAGE / page.stem)) for path in (PACKAGE / page.stem).rglob("*") if path.is_dir()
    }
    assert {name.removesuffix(".py") for name in named} <= there
