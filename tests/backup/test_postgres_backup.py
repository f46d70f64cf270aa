"""PostgreSQL's own tools under load: pg_dump into another database, and a base back-up that becomes another server."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import asyncpg
import pytest

from ficha.doctor import DoctorLimits, examine
from ficha.store.connect import store_for
from ficha.store.postgres import PostgresStore
from tests.backup.busy_shop import SECRET, busy_shop, check_copy, new_clock
from tests.support.postgres import Server, new_database, server_folder
from tests.support.shop import shop
from tests.support.waiting import until

CARELESS = """
fsync = off
full_page_writes = off
autovacuum = off
track_counts = off
archive_mode = on
archive_command = 'false'
max_prepared_transactions = 2
"""


def run(*command: str | Path, user: str | None = None, cwd: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, user=user, cwd=cwd)
    assert done.returncode == 0, done.stderr


async def test_a_dump_under_load_is_whole_and_goes_on(
    postgres_server: Server, migrated_url: str, tmp_path: Path
) -> None:
    programs, dump = postgres_server.programs, tmp_path / "ficha.dump"
    async with busy_shop(migrated_url) as busy:
        await busy.goes_on()
        options = ("--format=custom", "--schema=ficha", f"--file={dump}", f"--dbname={migrated_url}")
        await asyncio.to_thread(run, programs / "pg_dump", *options)
        await busy.goes_on()
    async with new_database(postgres_server) as copy:
        run(programs / "pg_restore", "--exit-on-error", f"--dbname={copy}", dump)
        clock = new_clock()
        await check_copy(copy, PostgresStore(copy, clock=clock), clock, busy.held)


@pytest.mark.long
async def test_a_base_back_up_under_load_becomes_another_server(postgres_server: Server) -> None:
    """And that server, set up carelessly, shows what the doctor says of settings that only a server has."""
    user = "nobody" if os.geteuid() == 0 else None
    async with new_database(postgres_server) as url:
        await store_for(url).migrate()  # type: ignore[attr-defined]
        with server_folder() as elsewhere:
            async with busy_shop(url) as busy:
                await busy.goes_on()
                command = (
                    postgres_server.programs / "pg_basebackup",
                    f"--pgdata={elsewhere.data}",
                    f"--dbname={postgres_server.url()}",
                    *("--wal-method=stream", "--checkpoint=fast"),
                )
                await asyncio.to_thread(run, *command, user=user, cwd=elsewhere.folder)
                await busy.goes_on()
            conf = elsewhere.data / "postgresql.conf"
            conf.write_text(f"{conf.read_text()}unix_socket_directories = '{elsewhere.folder}'\n{CARELESS}")
            run(
                *(postgres_server.programs / "pg_ctl", f"--pgdata={elsewhere.data}", "start", "--wait"),
                f"--log={elsewhere.folder / 'log'}",
                user=user,
                cwd=elsewhere.folder,
            )
            copy = elsewhere.url(url.partition("@/")[2].partition("?")[0])
            clock = new_clock()
            await check_copy(copy, PostgresStore(copy, clock=clock), clock, busy.held)
            await _check_settings(copy)


async def _check_settings(copy: str) -> None:
    connection = await asyncpg.connect(copy)
    try:
        await connection.execute("SELECT pg_switch_wal()")

        async def has_failed() -> bool:
            return bool(await connection.fetchval("SELECT failed_count > 0 FROM pg_stat_archiver"))

        await until(has_failed)
        await connection.execute("BEGIN; SELECT 1 FROM ficha.pools; PREPARE TRANSACTION 'left'")
    finally:
        await connection.close()
    report = await examine(shop(copy, secret=SECRET), DoctorLimits(transaction_s=0))
    dangerous = {one.what.split()[0]: one.severity for one in report.findings if one.code == "SETTING_DANGEROUS"}
    assert dangerous == {
        "fsync": "critical",
        "full_page_writes": "critical",
        "autovacuum": "warning",
        "track_counts": "warning",
    }
    assert {"ARCHIVING_FAILS", "TRANSACTION_PREPARED"} <= {one.code for one in report.findings}
