"""A standby that follows a PostgreSQL of the test's own, and can take over from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tests.chaos.servers import FragileServer
from tests.support.postgres import server_folder
from tests.support.waiting import until

NAME = "standby"
"""Under which the primary knows it, for `synchronous_standby_names`."""


class Standby(FragileServer):
    def promote(self) -> None:
        """Makes it a primary, which takes writes, with all that it has received."""
        self._run(self._programs() / "pg_ctl", "promote", "--wait")

    def follow(self, primary: FragileServer) -> None:
        """Copies the primary, and starts to follow it."""
        options = (f"--dbname={primary.url()}", "--wal-method=stream", "--checkpoint=fast", "--write-recovery-conf")
        self._run(self._programs() / "pg_basebackup", *options)
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.write(f"unix_socket_directories = '{self.folder}'\ncluster_name = '{NAME}'\n")
            conf.write("synchronous_standby_names = ''\n")
        self.start_again()


@contextmanager
def standby_of(primary: FragileServer) -> Iterator[Standby]:
    with server_folder() as empty:
        standby = Standby(empty.folder, primary._programs())
        standby.follow(primary)
        yield standby


def url_of_both(primary: FragileServer, standby: Standby, database: str = "postgres") -> str:
    """The address that leads to whichever of the two takes writes."""
    hosts = f"{primary.folder},{standby.folder}"
    return f"postgresql://postgres@/{database}?host={hosts}&target_session_attrs=primary"


async def catch_up(primary: FragileServer, standby: Standby) -> None:
    """Until the standby has all that the primary has written so far."""
    there, here = await asyncio.gather(asyncpg.connect(primary.url()), asyncpg.connect(standby.url()))
    try:
        written = await there.fetchval("SELECT pg_current_wal_flush_lsn()::text")
        await until(lambda: here.fetchval(f"SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn"))
    finally:
        there.terminate()
        here.terminate()


async def cut_off(standby: Standby) -> None:
    """The standby no longer hears of what is committed."""
    connection = await asyncpg.connect(standby.url())
    try:
        await connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        await connection.execute("SELECT pg_reload_conf()")
        await until(lambda: connection.fetchval("SELECT count(*) = 0 FROM pg_stat_wal_receiver"))
    finally:
        connection.terminate()
