"""What the rest of the tests, and a set-up from a clean clone, stand on."""

import re
import tomllib
from pathlib import Path

import asyncpg
import pytest

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


async def test_the_tests_have_a_recent_and_durable_postgresql(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        assert await connection.fetchval("select 1") == 1
        assert connection.get_server_version().major >= 15
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await connection.fetchval("select current_setting($1)", setting) == "on"
    finally:
        await connection.close()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_pins_by_hash_and_names_no_index(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert "--hash=sha256:" in text
    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links", text)


def test_the_locks_are_there() -> None:
    assert [lock.stem for lock in LOCKS] == ["build", "dev", "runtime", "uv"]


def test_the_architecture_names_every_runtime_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [one for many in project["optional-dependencies"].values() for one in many if not one.startswith("ficha[")]
    names = [re.split(r"[<>=!~\[; ]", dependency)[0] for dependency in [*project["dependencies"], *extras]]
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").lower()
    assert [name for name in names if name.lower() not in text] == []
