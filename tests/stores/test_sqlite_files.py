"""Who may read SQLite's files: their owner alone."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ficha import Ficha, Plan


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def seen_while_open(path: Path) -> dict[str, int]:
    async with Ficha(f"sqlite:///{path}", plans=[Plan("free")]) as app:
        await app.open_account("ana", plan="free", credits=1)
        return modes(path.parent)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o277, 0o777])
async def test_whatever_the_umask_only_the_owner_can_read_the_files(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        found = await seen_while_open(tmp_path / "ficha.db")
    assert found == {"ficha.db": 0o600, "ficha.db-wal": 0o600, "ficha.db-shm": 0o600}
    assert set(modes(tmp_path).values()) == {0o600}


async def test_the_mode_of_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ficha.db"
    path.touch()
    path.chmod(0o660)
    assert await seen_while_open(path) == {"ficha.db": 0o660, "ficha.db-wal": 0o660, "ficha.db-shm": 0o660}


async def test_a_link_to_a_file_that_is_not_there_yet_makes_that_file(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "data").mkdir()
    link = tmp_path / "links" / "ficha.db"
    link.symlink_to(tmp_path / "data" / "ficha.db")
    with umask(0):
        await seen_while_open(link)
    assert modes(tmp_path / "data")["ficha.db"] == 0o600
