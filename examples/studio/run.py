"""Runs the studio: the provider simulator, the server and a worker, each a process of its own, until Ctrl-C.

    python run.py                                          # on an SQLite file in this folder
    python run.py --database postgresql://user@host/name   # on PostgreSQL
    python run.py --serverless                             # no worker: each submit starts one by HTTP, for 45 seconds

The simulator is started only where the key of a provider is missing (see providers.py).
"""

import argparse
import os
import re
import secrets
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

HERE = Path(__file__).parent
START_S = 30
STOP_S = 20
PROVIDER_KEYS = ("RUNNINGHUB_API_KEY", "REPLICATE_API_TOKEN", "FAL_KEY")
FICHA = [sys.executable, "-m", "ficha.cli"]
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""All is on this machine, over plain HTTP: no certificates have to be read."""
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class Program:
    """A process of the studio. What it writes is kept, and shown unless it is to be quiet."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], *, quiet: bool) -> None:
        self.name = name
        self.lines: list[str] = []
        self.address = ""
        self._quiet = quiet
        self._ready = threading.Event()
        self.process = subprocess.Popen(  # noqa: S603 (programs of this example)
            command,
            cwd=HERE,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
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

    def stop(self) -> None:
        """As a host does: SIGTERM, time to end, and only then a kill."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
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
    trigger: that of the endpoint that starts workers, if there is one. admin: a key for everything.
    """

    def __init__(self, database: str, environment: dict[str, str]) -> None:
        self.database = database
        self.environment = environment
        self.url = ""
        self.simulator = ""
        self.trigger = ""
        self.admin = ""
        self.programs: list[Program] = []

    def client(self, token: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, verify=NO_TLS)

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
        running.run_ficha("migrate", "up")
        running.admin = running.run_ficha("apikey", "create", "studio", "--scope", "admin", "--ttl-hours", "12")
        if serverless:
            running.trigger = start("trigger", sys.executable, "trigger.py", "--port", "0").wait().address
            settings["STUDIO_TRIGGER"] = running.trigger
        server = start("server", *FICHA, "serve", "--port", str(port))
        if not serverless:
            start("worker", *FICHA, "worker").wait()
        running.url = server.wait().address
        yield running


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default=f"sqlite:///{HERE / 'studio.db'}")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long the simulated provider works on a task")
    parser.add_argument("--serverless", action="store_true", help="no worker: submits start one by HTTP")
    asked = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with studio(
        asked.database, HERE, port=asked.port, seconds=asked.seconds, serverless=asked.serverless, quiet=False
    ) as running:
        key = _demo_key(running)
        print(f"\nThe studio answers at {running.url}", f"account demo, plan pro, token {key}\n", sep="\n", flush=True)
        while not stopped.wait(0.5):
            if gone := [program.name for program in running.programs if program.process.poll() is not None]:
                print(f"{gone[0]} has ended; stopping the others", file=sys.stderr)
                return 1
    return 0


def _demo_key(running: Studio) -> str:
    running.run_ficha("account", "create", "demo", "--plan", "pro", "--credits", "1000", "--exist-ok")
    return running.run_ficha("apikey", "create", "demo", "--scope", "user", "--account", "demo", "--ttl-hours", "12")


if __name__ == "__main__":
    sys.exit(main())
