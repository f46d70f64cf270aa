"""A real server for tests: `ficha serve` in a process of its own, on a real database."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from ficha import Ficha
from tests.server.shop import app as shop
from tests.support.processes import ForkedProcess

SECRET = "dGVzdHMtb2YtdGhlLXNlcnZlci0wMTIzNDU2Nzg5"  # noqa: S105 (for the tests alone)
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP: by default each would read all the certificates that the machine trusts."""
_ADDRESS = re.compile(r"http://[\d.]+:\d+")


class Served:
    """A running server. `admin`, `service` and `viewer` are keys; `account` makes one for an account."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.url = ""
        self.lines: list[str] = []
        self.admin = asyncio.run(_key(database, "tests admin", "admin", None))
        self.service = asyncio.run(_key(database, "tests service", "service", None))
        self.viewer = asyncio.run(_key(database, "tests viewer", "viewer", None))
        self.files = tempfile.mkdtemp(prefix="ficha-served-")
        """The folder of its files, which goes when it stops."""
        self.process: ForkedProcess | None = None
        self._listens = threading.Event()

    def start(self, *arguments: str, **environment: str) -> None:
        options = ["serve", "--app", "tests.server.shop:app", "--database", self.database, "--port", "0", *arguments]
        variables = {**os.environ, "FICHA_SECRET": SECRET, "FICHA_ATTEMPTS_PER_HOUR": "100000"}
        variables |= {"FICHA_FILES_URL": f"file://{self.files}", **environment}
        self.process = ForkedProcess("ficha.cli", options, stderr=subprocess.PIPE, text=True, env=variables)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listens.wait(30):
            self.stop()
            raise AssertionError("the server did not say where it listens:\n" + "".join(self.lines))

    def _read(self) -> None:
        assert self.process is not None
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.lines.append(line)
                if not self.url and (found := _ADDRESS.search(line)):
                    self.url = found[0]
                    self._listens.set()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(30)
        shutil.rmtree(self.files, ignore_errors=True)
        self._reader.join()
        return code

    def client(self, token: str | None, **options: object) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, verify=NO_TLS, **options)

    def account(self, name: str, *, plan: str = "open", credits: int = 100) -> str:
        """Opens an account and gives a key of its own."""
        with self.client(self.admin) as admin:
            opened = admin.post("/api/admin/accounts", json={"account": name, "plan": plan, "credits": credits})
            assert opened.status_code == 201, opened.text
            made = admin.post("/api/admin/api-keys", json={"name": f"of {name}", "scope": "user", "account": name})
            assert made.status_code == 201, made.text
            return made.json()["secret"]

    def take(self, job: str, worker: str = "tests") -> dict[str, object]:
        """Takes a job of the pool `cpu` as a worker over HTTP would, and gives the name of the lease. Other jobs are
        held meanwhile. A worker that holds jobs with lost runs gets no others, so each claim is by another one."""
        others: list[dict[str, object]] = []
        with self.client(self.service) as service:
            try:
                for number in range(50):
                    name = f"{worker} {number}" if number else worker
                    asked = {"worker": name, "pools": ["cpu"], "limit": 1000, "wait_s": 1}
                    leases = service.post("/api/worker/claim", json=asked).json()["leases"]
                    found = [{"job_id": lease["job_id"], "epoch": lease["epoch"]} for lease in leases]
                    others += [one for one in found if one["job_id"] != job]
                    if mine := [one for one in found if one["job_id"] == job]:
                        return mine[0]
            finally:
                for one in others:
                    service.post("/api/worker/finish", json={**one, "outcome": "returned"})
        raise AssertionError(f"job {job} was never to be had")


async def _key(database: str, name: str, scope: str, account: str | None) -> str:
    async with Ficha(database, plans=shop.policy.plans.values(), sweep_by_itself=False) as app:
        made = await app.create_api_key(name, scope=scope, account=account)
        return made.secret


@contextmanager
def served(database: str, *arguments: str, **environment: str) -> Iterator[Served]:
    server = Served(database)
    server.start(*arguments, **environment)
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()
