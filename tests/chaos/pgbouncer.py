"""A pgbouncer in transaction mode in front of a PostgreSQL, installed from Debian's packages where it is missing."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, quote, urlsplit

INSTALL = (
    ["apt-get", "update", "-qq"],
    ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "pgbouncer"],
)

SETTINGS = """
[databases]
* = host={server} port=5432 user=postgres

[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 8
max_client_conn = 200
logfile = {folder}/log
pidfile = {folder}/pid
"""


def program() -> str:
    """Where pgbouncer is. No test is left out for want of it: it is installed, or the failure says what to do."""
    for path in (shutil.which("pgbouncer"), "/usr/sbin/pgbouncer"):
        if path and os.path.exists(path):
            return path
    # Two runs of the tests at once must not both call apt-get.
    with open("/tmp/ficha-pgbouncer.lock", "w") as lock:  # noqa: S108 (a lock that all runs on this machine share)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists("/usr/sbin/pgbouncer"):
            return "/usr/sbin/pgbouncer"
        assert os.geteuid() == 0, "pgbouncer is missing and only root may install it: apt-get install pgbouncer"
        assert shutil.which("apt-get"), "pgbouncer is missing, and there is no apt-get to install it with"
        # The package starts a service of its own; here it must not.
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in INSTALL:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
            assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr}"
    return "/usr/sbin/pgbouncer"


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """The address through the pooler, for the database at this one; hints are listened for past the pooler."""
    server = parse_qs(urlsplit(url).query)["host"][0]
    with TemporaryDirectory(prefix="ficha-pooler-") as name:
        folder = Path(name)
        (folder / "settings").write_text(SETTINGS.format(server=server, folder=folder))
        user = None
        if os.geteuid() == 0:
            user = "nobody"
            nobody = pwd.getpwnam(user)
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            os.chmod(folder / "settings", 0o644)
        pooler = subprocess.Popen(
            [program(), "-q", str(folder / "settings")], user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(folder / ".s.PGSQL.6432", folder / "log")
            pooled_url = url.replace(f"host={server}", f"host={folder}&port=6432")
            yield f"{pooled_url}&ficha_prepared=off&ficha_listen_url={quote(url, safe='')}"
        finally:
            pooler.kill()
            pooler.wait()


def _wait_for(path: Path, log: Path) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as tried:
            if tried.connect_ex(str(path)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"pgbouncer did not start: {log.read_text() if log.exists() else 'no log'}")
