"""SECURITY.md names tests and attackers that exist, every attacker among them, and settings that exist."""

import re
from pathlib import Path

from ficha.server import Settings
from tests.attack.attackers import ATTACKERS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def proofs() -> list[str]:
    """The last column of the table of promises."""
    table = TEXT.partition("## What is promised")[2].partition("\n### ")[0]
    return [line.split("|")[-2] for line in table.splitlines() if line.startswith("| ") and "proved by" not in line]


def test_every_promise_is_proved_by_a_test_that_exists_or_an_attacker() -> None:
    assert len(proofs()) > 15
    for proof in proofs():
        paths = re.findall(r"`([a-z_0-9/.]+)`", proof)
        attackers = re.findall(r"\*([^*]+)\*", proof)
        assert [path for path in paths if not (ROOT / "tests" / path).exists()] == []
        assert set(attackers) <= set(ATTACKERS)
        assert paths or attackers or proof.strip() == "the same", proof


def test_every_attacker_proves_a_promise() -> None:
    assert set(re.findall(r"\*([^*]+)\*", "".join(proofs()))) == set(ATTACKERS)


def test_the_settings_that_harden_exist() -> None:
    named = {name.lower() for name in re.findall(r"`FICHA_([A-Z_]+)`", TEXT)}
    assert {name.removesuffix("_file") for name in named} <= set(Settings.__struct_fields__)


def test_links_lead_somewhere() -> None:
    for path in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXT):
        assert (ROOT / path).exists(), path
