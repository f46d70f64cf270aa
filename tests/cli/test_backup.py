"""`ficha backup`: one line for people, one document for programs, and words where it cannot."""

from pathlib import Path

import pytest

from ficha import Ficha
from tests.cli.running import Run


async def test_a_database_in_use_is_copied(ficha: Run, folder: Path) -> None:
    async with Ficha("sqlite:///ficha.db") as app:
        await app.open_account("ana", credits=5)
        made = ficha("backup", "copy.db", "--json").data
        assert (made["path"], made["size"]) == (str(folder / "copy.db"), (folder / "copy.db").stat().st_size)
        await app.grant("ana", 5, reason="later")
    assert ficha("account", "show", "ana", "--json", "--database", "sqlite:///copy.db").data["balance"] == 5
    assert ficha("verify", "--json", "--database", "sqlite:///copy.db").data["ok"] is True
    assert "checked" in ficha("backup", "second.db").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("copy.db", "--database", "sqlite:///none.db"), "there is no database"),
        (("copy.db", "--database", "postgresql://user:hush@host/db"), "pg_dump"),
        (("copy.db", "--database", "memory:"), "is not an SQLite file"),
        (("none/copy.db",), "make it first"),
        (("ficha.db",), "overwrites nothing"),
    ],
)
def test_what_cannot_be_copied_is_told(ficha: Run, arguments: tuple[str, ...], words: str) -> None:
    ficha("migrate", "up")
    refused = ficha("backup", *arguments, expect=1)
    assert words in refused.err
    assert "hush" not in refused.err
