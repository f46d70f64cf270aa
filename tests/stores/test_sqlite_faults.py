"""What can go wrong around an SQLite file: other processes, a failing disk, places where it must not be."""

import asyncio
import os
import shutil
import signal
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from ficha.core import commands as c
from ficha.store import base as q
from ficha.store.sqlite import SqliteStore
from ficha.store.sqlite.connection import refuse_old_library
from ficha.store.sqlite.filesystem import filesystem_of, is_network
from ficha.testing import ManualClock
from tests.stores.sqlite_setup import (
    COMMITTER,
    StoreSetup,
    a_submit,
    exists,
    is_intact,
    on_writer,
    start_program,
    start_writer,
)

WRITER = Path(__file__).with_name("sqlite_writer.py")


# Several processes


async def test_processes_that_write_at_once_lose_nothing(setup: StoreSetup, path: str) -> None:
    writers = [start_writer(path, 60, f"p{number}") for number in range(3)]
    for number in range(60):
        await setup.run(c.Credit("ana", 1, "grant", key=f"here-{number}"))
    said = [await asyncio.to_thread(writer.communicate) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert [len(lines.split()) for lines, _ in said] == [60, 60, 60]
    found = await setup.store.read(q.GetState())
    assert found.accounts["ana"].balance == 100 + 4 * 60
    assert [entry.number for entry in found.entries] == list(range(1, 242))
    assert len(found.keys) == 4 * 60


async def test_a_killed_process_loses_nothing_that_was_acknowledged(setup: StoreSetup, path: str) -> None:
    await setup.store.close()
    kept: set[str] = set()
    for attempt in range(4):
        writer = start_writer(path, 100_000, f"p{attempt}")
        assert writer.stdout is not None
        kept.update(writer.stdout.readline().strip() for _ in range(20 + attempt))
        writer.send_signal(signal.SIGKILL)
        kept.update(line.strip() for line in writer.communicate()[0].splitlines() if line.endswith(tuple("0123456789")))
    assert is_intact(path)
    await setup.store.open()
    found = await setup.store.read(q.GetState())
    names = {key.key for key in found.keys.values()}
    # The last commit group of each process may be there without having been acknowledged.
    assert kept <= names
    assert len(names - kept) <= 4
    assert found.accounts["ana"].balance == 100 + len(names) == sum(entry.amount for entry in found.entries)


# A disk that fails


class FaultyFile(apsw.VFSFile):
    def __init__(self, vfs: "FaultyDisk", name: Any, flags: Any) -> None:
        super().__init__("unix", name, flags)
        self.vfs = vfs
        self.is_journal = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xWrite(self, data: Any, offset: int) -> None:
        if self.is_journal and self.vfs.is_full:
            raise apsw.FullError("no space")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if self.is_journal and self.vfs.is_broken:
            raise apsw.IOError("no flush")
        super().xSync(flags)


class FaultyDisk(apsw.VFS):
    """SQLite's way to the disk, with faults."""

    def __init__(self) -> None:
        super().__init__("faulty", "unix", makedefault=True)
        self.is_full = False
        self.is_broken = False

    def xOpen(self, name: Any, flags: Any) -> FaultyFile:
        return FaultyFile(self, name, flags)


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk()
    yield disk
    disk.unregister()


async def test_a_full_database_keeps_nothing_of_a_commit_group_and_goes_on_once_it_has_space(setup: StoreSetup) -> None:
    def limit(pages: int, db: apsw.Connection) -> None:
        db.pragma("max_page_count", pages)

    # What migrations have freed would be filled first.
    await on_writer(setup.store, lambda db: db.execute("VACUUM"))
    pages = await on_writer(setup.store, lambda db: db.pragma("page_count"))
    await on_writer(setup.store, partial(limit, pages))
    many = [a_submit(number) for number in range(1, 41)]
    with pytest.raises(q.Unavailable, match=r"no space left for .*ficha\.db: nothing was written"):
        await setup.run(*many)
    assert await setup.balance() == 100
    assert await setup.store.read(q.ListJobs()) == []
    await on_writer(setup.store, partial(limit, 1_000_000))
    await setup.run(*many)
    assert await setup.balance() == 20


async def test_a_disk_that_fills_up_during_the_commit_keeps_nothing_of_the_commit_group(
    disk: FaultyDisk, setup: StoreSetup, path: str
) -> None:
    disk.is_full = True
    with pytest.raises(q.Unavailable, match="no space left"):
        await setup.run(a_submit(1))
    assert await setup.balance() == 100
    disk.is_full = False
    await setup.run(a_submit(1))
    assert await setup.balance() == 98
    assert is_intact(path)


async def test_whether_a_group_was_committed_is_not_told_once_its_row_may_be_gone(path: str) -> None:
    clock = ManualClock()
    store = SqliteStore(path, clock=clock)
    await store.migrate()
    await store.open()
    setup = StoreSetup(store)
    await setup.run(c.OpenAccount("ana", "pro", credits=100))
    clock.advance(q.ASKED_MS / 1_000)
    assert await store.committed(COMMITTER, 1)
    assert not await store.committed(COMMITTER, 2)
    clock.advance(0.000_001)
    assert await store.committed(COMMITTER, 1), "what is there is there"
    with pytest.raises(q.CommitUnknown, match="too long ago"):
        await store.committed(COMMITTER, 2)
    await store.close()


async def test_a_commit_that_could_not_be_flushed_is_unknown_until_asked(
    disk: FaultyDisk, setup: StoreSetup, path: str, tmp_path: Path
) -> None:
    disk.is_broken = True
    with pytest.raises(q.CommitUnknown, match="the outcome is unknown"):
        await setup.run(a_submit(1))
    with pytest.raises(q.Unavailable, match="cannot tell yet"):
        await setup.store.committed(COMMITTER, setup.number)
    disk.is_broken = False
    is_kept = await setup.store.committed(COMMITTER, setup.number)
    # The answer stands even if the process dies right now, with the journal as it is.
    for name in ("ficha.db", "ficha.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / f"crashed-{name}")
    crashed = apsw.Connection(str(tmp_path / "crashed-ficha.db"))
    assert bool(crashed.execute("SELECT count(*) FROM jobs").get) == is_kept
    jobs = await setup.store.read(q.ListJobs())
    assert bool(jobs) == is_kept
    await setup.run(a_submit(2))
    assert await setup.balance() == (96 if is_kept else 98)
    assert is_intact(path)


async def test_a_file_that_is_gone_is_not_made_anew(setup: StoreSetup, path: str, tmp_path: Path) -> None:
    away = tmp_path / "away.db"
    shutil.move(path, away)
    for _ in range(2):
        with pytest.raises(q.Unavailable, match=r"was moved, deleted or replaced|is gone"):
            await setup.run(c.Credit("ana", 1, "grant"))
        with pytest.raises(q.Unavailable, match=r"was moved, deleted or replaced|is gone"):
            await setup.balance()
    assert not exists(path)
    shutil.move(away, path)
    assert await setup.balance() == 100
    await setup.run(c.Credit("ana", 1, "grant"))
    assert await setup.balance() == 101


async def test_a_file_that_may_only_be_read_is_refused(setup: StoreSetup, path: str, tmp_path: Path) -> None:
    await setup.store.close()
    program = (
        "import asyncio, os, sys; from ficha.store.sqlite import SqliteStore\n"
        # Root may write everything, so the test gives its rights away.
        "if os.getuid() == 0: os.setgid(65534), os.setuid(65534)\n"
        "try: asyncio.run(SqliteStore(sys.argv[1]).open())\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    shared = Path("/tmp") / f"ficha-{os.getpid()}"  # noqa: S108 (a folder that another user can reach)
    shared.mkdir(mode=0o755)
    try:
        file = shared / "ficha.db"
        shutil.copy(path, file)
        file.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        answer = start_program(program, file).communicate()[0]
    finally:
        shutil.rmtree(shared)
    assert answer.startswith(f"ReadOnly {file} cannot be written")
    assert "must be writable" in answer


# What is refused at the door


@pytest.mark.parametrize("version", ["3.46.1", "3.51.2", "3.7.17"])
def test_a_library_that_corrupts_is_refused(version: str) -> None:
    with pytest.raises(q.StoreError, match=f"SQLite {version} can corrupt"):
        refuse_old_library(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "4.0.0", None])
def test_a_mended_library_is_not_refused(version: str | None) -> None:
    refuse_old_library(version)


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:5 / /mnt/team rw - nfs4 server:/team rw
31 30 8:2 / /mnt/team/local rw shared:2 master:1 - xfs /dev/sdb rw
32 22 0:6 / /mnt/with\\040space rw - cifs //server/share rw
33 22 0:7 / /home/ana/remote rw - fuse.sshfs ana@host: rw
34 22 0:8 / /scratch rw - ext4 /dev/sdc rw
35 22 0:9 / /scratch rw - lustre mds@tcp:/scratch rw
a line of another kind
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/ficha.db", "ext4"),
        ("/mnt/teams/ficha.db", "ext4"),
        ("/mnt/team/ficha.db", "nfs4"),
        ("/mnt/team/local/ficha.db", "xfs"),
        ("/mnt/with space/ficha.db", "cifs"),
        ("/home/ana/remote/x/ficha.db", "fuse.sshfs"),
        ("/scratch/ficha.db", "lustre"),
    ],
)
def test_the_file_system_of_a_path_is_found_in_the_table_of_mounts(path: str, kind: str) -> None:
    assert filesystem_of(path, MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "ceph", "fuse.sshfs", "fuse.s3fs"])
def test_network_file_systems_are_known(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.ntfs-3g", "virtiofs", "apfs", ""]
)
def test_local_file_systems_are_not_refused(kind: str) -> None:
    assert not is_network(kind)


async def test_a_database_on_a_network_file_system_is_refused(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"{MOUNTS}40 22 0:10 / {tmp_path} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr("ficha.store.sqlite.filesystem._MOUNTS", table)
    for call in (SqliteStore(path).migrate, SqliteStore(path).open, SqliteStore(path).version):
        with pytest.raises(q.StoreError, match=r"network file system \(nfs4\).*local disk, or use PostgreSQL"):
            await call()
    assert not exists(path)
