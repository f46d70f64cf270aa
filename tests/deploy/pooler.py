"""PgBouncer as deploy/ runs it: its own settings and script, in front of a PostgreSQL of the tests."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

from tests.chaos.pgbouncer import program
from tests.support.waiting import until_sync

DEPLOY = Path(__file__).parents[2] / "deploy"
PASSWORD = "for-the-tests_alone"  # noqa: S105 (for the tests alone)


class Pooler:
    """In transaction mode. `url` leads through it, `direct` past it.

    pool_size: how many connections to PostgreSQL it has at most; None for what the settings say.
    """

    def __init__(self, folder: Path, direct: str, pool_size: int | None) -> None:
        self._folder = folder
        self.direct = direct
        self.url = f"postgresql://postgres:{PASSWORD}@/ficha?host={folder}&port=6432&ficha_prepared=off"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        parts = urlsplit(direct)
        settings = (DEPLOY / "pgbouncer" / "pgbouncer.ini").read_text()
        for written, here in {
            "host=postgres port=5432 dbname=ficha": (
                f"host={parse_qs(parts.query)['host'][0]} port=5432 dbname={parts.path[1:]}"
            ),
            "listen_addr = 0.0.0.0": "listen_addr =",
            "unix_socket_dir =": f"unix_socket_dir = {folder}",
            "/run/pgbouncer": str(folder),
            "default_pool_size = 50": f"default_pool_size = {pool_size or 50}",
        }.items():
            assert written in settings, written
            settings = settings.replace(written, here)
        (folder / "pgbouncer.ini").write_text(settings)
        (folder / "pgbouncer.ini").chmod(0o644)
        (folder / "start.sh").write_text((DEPLOY / "pgbouncer" / "start.sh").read_text())

    def start(self) -> None:
        environment = {
            "PATH": f"{Path(program()).parent}:{os.environ['PATH']}",
            "POSTGRES_USER": "postgres",
            "POSTGRES_PASSWORD": PASSWORD,
            "PGBOUNCER_STATS_PASSWORD": PASSWORD,
            "PGBOUNCER_ADMIN_PASSWORD": PASSWORD,
            "PGBOUNCER_RUN": str(self._folder),
            "PGBOUNCER_INI": str(self._folder / "pgbouncer.ini"),
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", self._folder / "start.sh"],
                env=environment,
                user="nobody" if os.geteuid() == 0 else None,
                stdout=log,
                stderr=log,
            )
        until_sync(self._listens, what="PgBouncer listens")

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with socket.socket(socket.AF_UNIX) as tried:
            return tried.connect_ex(str(self._folder / ".s.PGSQL.6432")) == 0

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        (self._folder / ".s.PGSQL.6432").unlink(missing_ok=True)


@contextmanager
def deployed_pooler(direct: str, pool_size: int | None = None) -> Iterator[Pooler]:
    # Not pytest's folder: it is closed to other users, and its path is too long for a socket's name.
    with TemporaryDirectory(prefix="ficha-pooler-") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        pooler = Pooler(folder, direct, pool_size)
        pooler.start()
        try:
            yield pooler
        finally:
            pooler.kill()
