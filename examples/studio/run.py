"""Runs the studio until Ctrl-C: the provider simulator, the server, a worker and the visitors, each in its own process.

    python run.py                                          # on an SQLite file in the folder data
    python run.py --database postgresql://user@host/name   # on PostgreSQL
    python run.py --serverless                             # no worker: each submit starts one by HTTP, for 45 seconds
    python run.py --no-visitors                            # nobody but you

The simulator is started only where the key of a provider is missing (see providers.py). `make demo` runs this.
"""

import argparse
import os
import re
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
from people import PEOPLE

HERE = Path(__file__).parent
DATA = HERE / "data"
START_S = 30
STOP_S = 20
PORTS_TRIED = 20
LINES_KEPT = 500
KEY_TTL_HOURS = 12
KEY_TTL_S = KEY_TTL_HOURS * 3_600
PROVIDER_KEYS = ("RUNNINGHUB_API_KEY", "REPLICATE_API_TOKEN", "FAL_KEY")
FICHA = [sys.executable, "-m", "ficha.cli"]
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""All is on this machine, over plain HTTP: no certificates have to be read."""
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class Program:
    """A process of the studio. The last lines that it writes are kept, and all are shown unless it is to be quiet."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], *, quiet: bool) -> None:
        self.name = name
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.address = ""
        self._quiet = quiet
        self._is_asked = False
        self._ready = threading.Event()
        self.process = subprocess.Popen(  # noqa: S603 (programs of this example)
            command,
            cwd=HERE,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A group of its own: Ctrl-C is for this program, which then stops the others in order.
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if not self._quiet:
                print(f"{self.name:9} {line}", end="", flush=True)
            if not self.address and (found := _ADDRESS.search(line)):
                self.address = found[0]
            if self.address or "started" in line:
                self._ready.set()
        self._ready.set()

    def wait(self) -> "Program":
        """Waits until it says that it runs."""
        if not self._ready.wait(START_S) or self.process.poll() is not None:
            raise RuntimeError(f"the {self.name} did not start:\n{''.join(self.lines)}")
        return self

    def end(self) -> None:
        """Asks it to end, once: a second signal could meet it when it handles none any more."""
        if not self._is_asked and self.process.poll() is None:
            self._is_asked = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """As a host does: SIGTERM, time to end, and only then a kill."""
        self.end()
        if self.process.poll() is None:
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(STOP_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Studio:
    """The running studio.

    database: where everything is kept. url: the server's address. simulator: the provider simulator's, if it runs.
    trigger: that of the endpoint that starts workers, if there is one. admin: a key for everything. name: that key's.
    """

    def __init__(self, database: str, environment: dict[str, str]) -> None:
        self.database = database
        self.environment = environment
        self.url = ""
        self.simulator = ""
        self.trigger = ""
        self.admin = ""
        self.name = f"studio {secrets.token_hex(4)}"
        self._keys: list[str] = []
        self.programs: list[Program] = []

    def client(self, token: str | None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, verify=NO_TLS)

    def draw_samples(self) -> None:
        """Has the server draw its sample pictures."""
        with suppress(httpx.HTTPError), self.client(None) as browser:
            for sample in browser.get("/studio/demo").json()["samples"]:
                browser.get(f"/studio/samples/{sample['name']}")

    def key(self, name: str, scope: str) -> str:
        """A new API key. Those of the same name that an earlier run left behind, because it was killed, end now."""
        with self.client(self.admin) as admin:
            self._revoke(admin, name)
            asked = {"name": name, "scope": scope, "ttl_s": KEY_TTL_S}
            made: dict[str, str] = admin.post("/api/admin/api-keys", json=asked).raise_for_status().json()
        self._keys.append(name)
        return made["secret"]

    def forget_keys(self) -> None:
        """Revokes the keys of this run, that of this program last. What cannot be revoked expires."""
        try:
            with self.client(self.admin) as admin:
                for name in (*self._keys, self.name):
                    self._revoke(admin, name)
        except httpx.HTTPError as error:
            print(f"the keys could not be revoked, and expire: {error}", file=sys.stderr)

    @staticmethod
    def _revoke(admin: httpx.Client, name: str) -> None:
        keys = admin.get("/api/admin/api-keys", params={"limit": 1_000}).raise_for_status().json()["items"]
        for key in keys:
            if key["name"] == name and key["state"] == "live":
                admin.post(f"/api/admin/api-keys/{key['id']}/revoke").raise_for_status()

    def run_ficha(self, *arguments: str, **environment: str) -> str:
        """The `ficha` command, on the studio's database."""
        done = subprocess.run(  # noqa: S603 (this very program)
            [*FICHA, *arguments],
            cwd=HERE,
            env={**os.environ, **self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"ficha {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()


@contextmanager
def studio(
    database: str,
    folder: Path,
    *,
    port: int = 0,
    seconds: float = 3.0,
    serverless: bool = False,
    visitors: bool = False,
    quiet: bool = True,
    **environment: str,
) -> Iterator[Studio]:
    """The studio, from the start of its processes to their end.

    folder: where the files lie. seconds: how long the simulated provider takes for a task.
    """
    port = port or free_port()
    settings = {
        "FICHA_APP": "app:app",
        "FICHA_DATABASE_URL": database,
        "FICHA_FILES_URL": f"file:{folder / 'files'}",
        "FICHA_SECRET": os.environ.get("FICHA_SECRET") or secrets.token_urlsafe(32),
        # Providers call back here. Real ones need an address that they can reach.
        "FICHA_PUBLIC_URL": os.environ.get("FICHA_PUBLIC_URL") or f"http://127.0.0.1:{port}",
        # The studio's own sign-in issues tokens that Ficha takes (door.py).
        "FICHA_JWT_SECRET": secrets.token_urlsafe(32),
        "FICHA_JWT_ISSUER": "studio",
        "FICHA_JWT_AUDIENCE": "studio",
        "STUDIO_WORK_S": str(seconds / 3),
        **environment,
    }
    with ExitStack() as stack:
        running = Studio(database, settings)

        def start(name: str, *command: str) -> Program:
            program = Program(name, list(command), settings, quiet=quiet)
            running.programs.append(program)
            stack.callback(program.stop)
            return program

        if not all(name in os.environ for name in PROVIDER_KEYS):
            simulate = [sys.executable, "-m", "provider_simulator", "--port", "0", "--seconds", str(seconds)]
            running.simulator = start("simulator", *simulate).wait().address
            settings["STUDIO_SIMULATOR"] = running.simulator
            # The simulator is at a loopback address, which no file is fetched from otherwise.
            settings["FICHA_ALLOW_ADDRESSES"] = "127.0.0.0/8"
            if visitors:
                settings["STUDIO_WEBHOOK_RECEIVER"] = f"http://127.0.0.1:{port}/studio/webhooks"
        running.run_ficha("migrate", "up")
        admin = ("apikey", "create", running.name, "--scope", "admin", "--ttl-hours", str(KEY_TTL_HOURS))
        running.admin = running.run_ficha(*admin)
        if serverless:
            running.trigger = start("trigger", sys.executable, "trigger.py", "--port", "0").wait().address
            settings["STUDIO_TRIGGER"] = running.trigger
        server = start("server", sys.executable, "server.py", "--port", str(port))
        if not serverless:
            start("worker", *FICHA, "worker").wait()
        running.url = server.wait().address
        if visitors:
            start("visitors", sys.executable, "visitors.py", "--url", running.url).wait()
        try:
            yield running
        finally:
            running.forget_keys()
            # All at once: none needs another one to end well.
            for program in running.programs:
                program.end()


def free_port(*wanted: int) -> int:
    """The first of these ports that is free, or else any."""
    for port in (*wanted, 0):
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            free: int = found.getsockname()[1]
            return free
    raise OSError("no port is free")


class Parent:
    """The program that started this one, which may be told to stop in its place: `kill -INT` of make reaches make
    alone, which then waits for this program. What it does about signals tells: once interrupted, make catches SIGINT no
    longer. A parent that has ended stops this program too. Only Linux shows either; elsewhere Ctrl-C does it."""

    def __init__(self, pid: int | None) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._caught = self._catches()

    def has_stopped(self) -> bool:
        catches = self._catches()
        return self._caught is not None and (catches is None or (self._caught and not catches))

    def _catches(self) -> bool | None:
        """Whether it would catch SIGINT, which one that was started in the background may not do; None if it has
        ended."""
        try:
            told = dict(line.split(":", 1) for line in self._status.read_text().splitlines())
        except OSError:
            return None
        return None if "Z" in told["State"] else bool(int(told["SigCgt"], 16) >> (signal.SIGINT - 1) & 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the files, and of the SQLite database")
    parser.add_argument("--database", help="another one than that in the folder")
    parser.add_argument("--port", type=int, default=8000, help="if it is taken, the next free one")
    parser.add_argument("--seconds", type=float, default=9.0, help="how long the simulated provider works on a task")
    parser.add_argument("--serverless", action="store_true", help="no worker: submits start one by HTTP")
    parser.add_argument("--no-visitors", action="store_true", help="nobody submits but you")
    parser.add_argument("--verbose", action="store_true", help="show what the processes write")
    parser.add_argument("--parent", type=int, help="stop when this process was interrupted")
    asked = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.set())
    parent = Parent(asked.parent)
    port = free_port(*range(asked.port, asked.port + PORTS_TRIED))
    if port != asked.port != 0:
        print(f"port {asked.port} is taken by another program; using {port}", file=sys.stderr)
    data = asked.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    with studio(
        asked.database or f"sqlite:///{data / 'studio.db'}",
        data,
        port=port,
        seconds=asked.seconds,
        serverless=asked.serverless,
        visitors=not asked.no_visitors,
        quiet=not asked.verbose,
    ) as running:
        greet(running, data)
        while not stopped.wait(0.3) and not parent.has_stopped():
            for program in running.programs:
                if program.process.poll() is not None:
                    print(f"the {program.name} has ended:\n{''.join(program.lines)}", file=sys.stderr)
                    return 1
        print("\nstopping", flush=True)
    return 0


def greet(running: Studio, data: Path) -> None:
    """Says where everything is. Nothing is opened by itself."""
    # The samples are drawn when they are first asked for: before the first visitor looks.
    threading.Thread(target=running.draw_samples, daemon=True).start()
    admin, viewer = running.key("console admin", "admin"), running.key("console viewer", "viewer")
    people = ", ".join(f"{person.account} ({person.plan})" for person in PEOPLE)
    print(
        f"""
  The studio   {running.url}/studio
               enter as {people}; open it in two windows
  The console  {running.url}/console/?range=1h
               sign in as an operator  {admin}
               or to look only         {viewer}
  The API      {running.url}/docs

  The data is in {data}. Ctrl-C stops everything.
""",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
