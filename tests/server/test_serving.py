"""`ficha serve` with real processes: what it refuses to start with, how it stops, and what it survives."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from ficha import Ficha
from ficha.environment import SettingError
from ficha.server.serving import ServerProcess, listening
from ficha.server.settings import Settings
from tests.support import processes
from tests.support.server_process import NO_TLS, SECRET, Served, served
from tests.support.waiting import until_sync

CANARY = "sk_live_CANARY0123456789abcdef"
BUSY = {"tool": "upscale", "payload": {"image": "x"}}
"""A job of a pool that nobody works for: whoever waits for its end waits."""
BUSY_LOOP = "import time\nends = time.monotonic() + 100\nwhile time.monotonic() < ends:\n    pass"


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ficha.db'}"


def serve(*arguments: str, expect: int, **environment: str) -> str:
    """What a server that does not start says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FICHA_")}
    done = processes.run("ficha.cli", "serve", "--app", "tests.server.shop:app", *arguments, env=kept | environment)
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr
    assert "listening" not in done.stderr
    return done.stderr


def children(pid: int) -> set[int]:
    """The processes of a server: children of the parent, but for the one that multiprocessing keeps for itself."""
    found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return {child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}


def serving(pid: int) -> set[int]:
    """Those of them that serve: they handle SIGTERM."""
    return {child for child in children(pid) if _sigterm(child) == "handled"}


def spares(pid: int) -> set[int]:
    """Those that are prepared, and wait: SIGTERM ends them at once."""
    return {child for child in children(pid) if _sigterm(child) == "default"}


def _sigterm(pid: int) -> str:
    """What a process would do with SIGTERM."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    masks = {
        line.split(":")[0]: int(line.split()[1], 16) for line in lines if line.startswith("Sig") and "/" not in line
    }
    is_in = 1 << (signal.SIGTERM - 1)
    return "blocked" if masks["SigBlk"] & is_in else "handled" if masks["SigCgt"] & is_in else "default"


def is_gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def log(server: Served) -> list[dict]:
    return [json.loads(line) for line in list(server.lines) if line.startswith("{")]


class UnderWay:
    """A submit that the server has begun to read, and whose body is not sent before the test says so."""

    def __init__(self, server: Served, key: str) -> None:
        self._body = json.dumps(BUSY).encode()
        host, port = server.url.removeprefix("http://").split(":")
        self._connection = socket.create_connection((host, int(port)), timeout=20)
        self._connection.sendall(_post(len(self._body), key).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert self._connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"

    def send_body(self) -> None:
        self._connection.sendall(self._body)

    def answer(self) -> tuple[int, dict]:
        """The status and the body of the answer, after which the server has ended the connection."""
        with self._connection:
            head, _, body = _all(self._connection).partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)


def test_without_a_secret_that_holds_it_does_not_start_and_says_what_to_do(database: str) -> None:
    how = "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
    said = serve("--database", database, expect=1)
    assert "FICHA_SECRET is not set" in said
    assert how in said
    assert how in serve("--database", database, expect=1, FICHA_SECRET="short-but-not-a-word")  # noqa: S106
    assert not Path(database.removeprefix("sqlite:///")).exists()


@pytest.mark.parametrize("weak", ["changeme" * 8, "secret" * 10, "a" * 64])
def test_a_secret_that_everybody_knows_is_none(weak: str) -> None:
    with pytest.raises(SettingError, match="easily guessed"):
        Settings(secret=weak)


async def test_a_database_that_is_not_migrated_is_told_before_it_listens(postgres_url: str) -> None:
    said = serve("--database", postgres_url, "--port", "0", expect=1, FICHA_SECRET=SECRET)
    assert "ficha migrate up" in said


async def test_a_database_that_is_away_is_waited_for_until_it_is_told_to_stop(caplog: pytest.LogCaptureFixture) -> None:
    app = Ficha("postgresql://nobody@127.0.0.1:1/none")
    with listening("127.0.0.1", 0) as sock:
        server = ServerProcess(app, Settings(secret=SECRET), grace_s=1)
        running = asyncio.create_task(server.serve(sockets=[sock]))
        async with asyncio.timeout(20):
            while "the database is unreachable" not in caplog.text:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
            server.stop()
            await running
    assert not server.started


def test_a_port_that_is_taken_and_other_addresses_that_cannot_be_had(database: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = serve("--database", database, "--port", str(port), expect=1, FICHA_SECRET=SECRET)
    assert f"port {port} of 127.0.0.1 is taken by another program" in said
    said = serve("--database", database, "--host", "192.0.2.1", expect=1, FICHA_SECRET=SECRET)
    assert "192.0.2.1 is not an address of this machine" in said
    said = serve("--database", "memory:", "--processes", "2", expect=2, FICHA_SECRET=SECRET)
    assert "a separate memory: database" in said


def test_its_whole_log_is_for_programs_and_can_be_quieter(database: str) -> None:
    for level, said in (("info", {"listening", "request", "stop", "stopping"}), ("warning", {"listening"})):
        with served(database, "--log-level", level) as server, server.client(server.account(level)) as user:
            assert user.get("/api/account").status_code == 200
            assert server.stop() == 0
        lines = [json.loads(line) for line in server.lines]
        assert {line["event"].split()[0] for line in lines} == said
        [listening] = [line for line in lines if line["event"].startswith("listening at")]
        assert listening["url"] == server.url


def test_it_says_when_nobody_can_log_in(database: str) -> None:
    server = Served(f"{database}-other")  # Its keys are in another database.
    server.database = database
    server.start()
    assert server.stop() == 0
    [told] = [line for line in log(server) if "ficha apikey create" in line["event"]]
    assert told["level"] == "warning"


def test_a_stop_lets_requests_end_and_takes_no_new_ones(database: str) -> None:
    with served(database, "--grace", "20") as server:
        request = UnderWay(server, server.account("ana"))
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        until_sync(lambda: any(line["event"] == "stopping" for line in log(server)))
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url, trust_env=False)
        request.send_body()
        status, told = request.answer()
        assert (status, told["status"]) == (201, "queued")
        assert server.process.wait(10) == 0


def test_a_request_that_outlives_the_grace_is_told_to_come_again(database: str) -> None:
    with served(database, "--grace", "0.5") as server:
        request = UnderWay(server, server.account("ana"))
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 15
        status, told = request.answer()
        assert (status, told["code"], told["retryable"]) == (503, "OVERLOADED", True)
        assert told["retry_after_s"] == 1
        assert not any("Traceback" in line for line in server.lines)


def test_a_caller_who_waits_for_a_job_gets_it_as_it_is_when_the_server_stops(database: str) -> None:
    with (
        served(database, "--grace", "20") as server,
        server.client(server.account("ana")) as user,
        ThreadPoolExecutor(1) as thread,
    ):
        waiting = thread.submit(user.post, "/api/jobs", json=BUSY, headers={"Prefer": "wait=30"})
        until_sync(lambda: user.get("/api/jobs/active").json()["active"])
        assert server.stop() == 0
        assert (waiting.result().status_code, waiting.result().json()["status"]) == (201, "queued")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_second_signal_stops_at_once(database: str, processes: str) -> None:
    with served(database, "--grace", "60", "--processes", processes) as server:
        request = UnderWay(server, server.account("ana"))
        assert server.process is not None
        server.process.send_signal(signal.SIGINT)
        until_sync(lambda: any(line["event"] == "stop requested" for line in log(server)))
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        server.process.wait(30)
        assert time.monotonic() - began < 30, "it waited for the grace"
        assert _all(request._connection)[:12] in (b"", b"HTTP/1.1 503")
        request._connection.close()


def test_streams_end_with_a_hint_to_come_back_long_before_the_grace_is_over(database: str) -> None:
    with served(database, "--grace", "60") as server, ExitStack() as stack:
        key = server.account("ana")
        user = stack.enter_context(server.client(key))
        job = user.post("/api/jobs", json=BUSY).json()["job_id"]
        feeds = [
            stack.enter_context(user.stream("GET", address)).iter_lines()
            for address in (f"/api/jobs/{job}/events", "/api/account/events")
        ]
        firsts = [next(feed) for feed in feeds]
        assert all(firsts)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 30
        for feed in feeds:
            rest = list(feed)
            assert "event: reconnect" in rest
            assert "retry: 1000" in rest


def test_a_process_that_is_killed_is_replaced_while_the_others_answer(database: str) -> None:
    with served(database, "--processes", "2") as server:
        key = server.account("ana")
        assert server.process is not None
        parent = server.process.pid
        until_sync(lambda: len(serving(parent)) == 2)
        victim = min(serving(parent))
        os.kill(victim, signal.SIGKILL)
        until_sync(lambda: is_gone(victim))
        # Each over a connection of its own: those that the victim had are reset. The other may still be starting.
        answers = [httpx.get(f"{server.url}/healthz", trust_env=False).status_code for _ in range(20)]
        assert set(answers) <= {200, 503}
        until_sync(lambda: len(serving(parent) - {victim}) == 2)
        [died] = [line for line in log(server) if line["event"].startswith("a server process died")]
        assert (died["pid"], died["exit_code"]) == (victim, -9)
        with server.client(key) as user:
            assert user.get("/api/account").status_code == 200
        began = time.monotonic()
        kept = children(parent)
        assert server.stop() == 0
        assert time.monotonic() - began < 35
        assert all(map(is_gone, kept))


def test_the_spare_has_imported_all_that_serving_needs(database: str) -> None:
    """Nobody waits for the import of the application, which takes long here, when all processes are killed at once."""
    with served(database, "--processes", "2", "--app", "tests.server.slow_shop:app") as server:
        assert server.process is not None
        parent = server.process.pid
        until_sync(lambda: len(serving(parent)) == 2 and len(spares(parent)) == 1, 60)
        [spare] = spares(parent)
        for pid in serving(parent):
            os.kill(pid, signal.SIGKILL)
        until_sync(lambda: _ready(server))
        assert serving(parent) == {spare}


@pytest.mark.long
def test_all_processes_killed_at_once_are_served_again_in_two_seconds_on_a_busy_machine(database: str) -> None:
    with served(database, "--processes", "2") as server, ExitStack() as stack:
        assert server.process is not None
        parent = server.process.pid
        for _ in range(2 * (os.cpu_count() or 1)):
            busy = subprocess.Popen([sys.executable, "-c", BUSY_LOOP])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        for _ in range(3):
            until_sync(lambda: len(serving(parent)) == 2 and len(spares(parent)) == 1, 60)
            began = time.monotonic()
            for pid in serving(parent):
                os.kill(pid, signal.SIGKILL)
            until_sync(lambda: _ready(server))
            assert time.monotonic() - began < 2


def _ready(server: Served) -> bool:
    try:
        return httpx.get(f"{server.url}/readyz", trust_env=False, verify=NO_TLS).status_code == 200
    except httpx.HTTPError:
        return False  # The killed process had the connection.


def test_several_processes_finish_what_they_have_and_leave_nobody_behind(database: str) -> None:
    with served(database, "--processes", "2", "--grace", "20") as server, ExitStack() as stack:
        key = server.account("ana")
        user = stack.enter_context(server.client(key))
        assert user.post("/api/jobs", json=BUSY).status_code == 201
        feeds = [stack.enter_context(user.stream("GET", "/api/account/events")).iter_lines() for _ in range(4)]
        request = UnderWay(server, key)
        firsts = [next(feed) for feed in feeds]
        assert all(firsts)
        assert server.process is not None
        until_sync(lambda: len(serving(server.process.pid)) == 2)
        kept = children(server.process.pid)
        # As a terminal does, and systemd: every process gets the signal.
        for pid in (*kept, server.process.pid):
            os.kill(pid, signal.SIGINT)
        until_sync(lambda: any(line["event"] == "stopping" for line in log(server)))
        request.send_body()
        assert request.answer()[0] == 201
        assert server.process.wait(20) == 0
        assert all(map(is_gone, kept))
        assert all("event: reconnect" in list(feed) for feed in feeds)


def test_children_end_by_themselves_when_their_parent_is_killed(database: str) -> None:
    with served(database, "--processes", "2", "--grace", "1") as server:
        assert server.process is not None
        until_sync(lambda: len(serving(server.process.pid)) == 2 and spares(server.process.pid))
        kept = children(server.process.pid)
        server.process.kill()
        server.process.wait(10)
        until_sync(lambda: all(map(is_gone, kept)))


def test_children_that_cannot_start_end_the_parent_with_words(tmp_path: Path) -> None:
    (tmp_path / "halves.py").write_text(
        "import multiprocessing\nfrom ficha import Ficha\n"
        "if multiprocessing.parent_process() is not None:\n    raise RuntimeError('only half of it is here')\n"
        "app = Ficha('sqlite:///ficha.db')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "ficha.cli", "serve", "--app", "halves:app", "--port", "0", "--processes", "2"],
        cwd=tmp_path,
        env=os.environ | {"FICHA_SECRET": SECRET},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "only half of it is here" in done.stderr


def test_bad_callers_are_answered_and_the_others_do_not_notice(database: str) -> None:
    limits = {"FICHA_BODY_BYTES": "2000", "FICHA_BODY_S": "1", "FICHA_HEADER_S": "1", "FICHA_HEADER_BYTES": "4096"}
    with served(database, **limits) as server, ExitStack() as stack:
        key = server.account("ana")
        host, port = server.url.removeprefix("http://").split(":")

        def connected() -> socket.socket:
            return stack.enter_context(socket.create_connection((host, int(port)), timeout=20))

        dawdlers = [connected() for _ in range(200)]
        for number, dawdler in enumerate(dawdlers):
            dawdler.sendall([b"", b"GET /api/account HTTP/1.1\r\nHo", _post(100) + b"a"][number % 3])
        user = stack.enter_context(server.client(key))
        took: list[float] = []
        for _ in range(50):
            began = time.monotonic()
            assert user.get("/api/account").status_code == 200
            took.append(time.monotonic() - began)
        assert sorted(took)[25] < 0.5

        assert {_all(dawdler)[:12] for dawdler in dawdlers[0::3]} == {b""}
        assert {_all(dawdler)[:12] for dawdler in dawdlers[1::3]} == {b"HTTP/1.1 408"}
        # Whoever has not logged in is told so before the body is looked at.
        assert {_all(dawdler)[:12] for dawdler in dawdlers[2::3]} == {b"HTTP/1.1 401"}

        slow = connected()
        slow.sendall(_post(100, key) + b"a")
        assert _all(slow)[:12] == b"HTTP/1.1 408"
        assert user.post("/api/jobs", json={**BUSY, "session": "x" * 2_000}).json()["code"] == "TOO_LARGE"
        batch = {"items": [{**BUSY, "payload": {"image": "x" * 100}}] * 30}
        assert user.post("/api/batches", json=batch).status_code == 402
        assert user.get("/api/account", headers={"X-Large": "x" * 5_000}).json()["code"] == "HEADERS_TOO_LARGE"
        assert user.get("/api/account").status_code == 200


def _post(length: int, key: str = "") -> bytes:
    login = f"Authorization: Bearer {key}\r\n" if key else ""
    kind = "Content-Type: application/json\r\n"
    return f"POST /api/jobs HTTP/1.1\r\nHost: x\r\n{login}{kind}Content-Length: {length}\r\n\r\n".encode()


def _all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for tests that only ask it."""
    database = f"sqlite:///{tmp_path_factory.mktemp('quiet') / 'ficha.db'}"
    with served(database, FICHA_TRUSTED_PROXIES="127.0.0.1,10.0.0.0/8") as server:
        yield server


def test_secrets_that_callers_send_are_in_no_line_of_the_log(quiet: Served) -> None:
    key = quiet.account(f"ana-{time.monotonic_ns()}")
    headers = {"X-Correlation-ID": f"a b {CANARY}", "X-Api-Key": CANARY, "User-Agent": CANARY, "Cookie": CANARY}
    with quiet.client(key) as user, quiet.client(f"ficha_user_{CANARY}") as stranger:
        user.get("/api/account", headers=headers, params={"token": CANARY})
        user.get(f"/api/jobs/{CANARY}", headers=headers)
        user.get(f"/{CANARY}/{CANARY}")
        user.post("/api/jobs", json={"tool": CANARY, "payload": {"image": CANARY}, "session": CANARY})
        user.post("/api/jobs", json={**BUSY, "payload": {"image": CANARY}, "idempotency_key": CANARY})
        user.post("/api/jobs", content=f"not json {CANARY}")
        user.request(CANARY.upper().replace("_", "-")[:20], "/")
        stranger.get("/api/account")
        sent = user.get("/api/account").headers["x-correlation-id"]
    until_sync(lambda: any(line.get("correlation_id") == sent for line in log(quiet)))
    assert "CANARY" not in "".join(quiet.lines)
    assert key not in "".join(quiet.lines)


def test_a_line_of_the_log_says_who_asked_for_what_and_how_it_went(quiet: Served) -> None:
    key = quiet.account(f"ana-{time.monotonic_ns()}")
    with quiet.client(key) as user:
        job = user.post("/api/jobs", json=BUSY).json()["job_id"]
        answer = user.get(f"/api/jobs/{job}", headers={"X-Correlation-ID": f"of-{job}"})
    until_sync(lambda: any(line.get("correlation_id") == f"of-{job}" for line in log(quiet)))
    [line] = [line for line in log(quiet) if line.get("correlation_id") == f"of-{job}"]
    assert line["path"] == f"/api/jobs/{job}"
    assert line["route"] == "/api/jobs/{job_id}"
    assert (line["logger"], line["level"], line["method"], line["status"]) == ("ficha.server", "info", "GET", 200)
    assert line["caller"] == f"key {key[:17]}"
    assert line["bytes"] == len(answer.content)
    assert line["duration_ms"] >= 0


def test_probes_are_not_in_the_log(quiet: Served) -> None:
    with quiet.client(None) as anybody:
        assert anybody.get("/healthz").status_code == 200
        marked = anybody.get("/api/openapi.json").headers["x-correlation-id"]
    until_sync(lambda: any(line.get("correlation_id") == marked for line in log(quiet)))
    assert not any(line.get("path") == "/healthz" for line in log(quiet))


@pytest.mark.parametrize("named", ["192.0.2.1", None], ids=["another", "none"])
def test_a_proxy_that_is_named_is_believed_and_no_other(quiet: Served, database: str, named: str | None) -> None:
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
    with quiet.client(None) as proxy:
        assert "strict-transport-security" in proxy.get("/healthz", headers=forwarded).headers
        assert "strict-transport-security" not in proxy.get("/healthz").headers
    with (
        served(database, **({} if named is None else {"FICHA_TRUSTED_PROXIES": named})) as other,
        other.client(None) as somebody,
    ):
        assert "strict-transport-security" not in somebody.get("/healthz", headers=forwarded).headers


def test_many_callers_at_once_are_all_answered(quiet: Served) -> None:
    key = quiet.account(f"ana-{time.monotonic_ns()}")
    with quiet.client(key) as user, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: user.get("/api/account").status_code, range(300)))
    assert answers == [200] * 300


def test_a_worker_that_waits_for_work_does_not_hold_up_a_stop(database: str) -> None:
    sent = threading.Event()
    with served(database, "--grace", "25") as server, ThreadPoolExecutor(1) as beside, ExitStack() as stack:
        service = stack.enter_context(server.client(server.service))
        service.get("/healthz")
        service.event_hooks = {"request": [lambda _: sent.set()]}
        asked = {"worker": "idle", "pools": ["default"], "wait_s": 25}
        waiting = beside.submit(service.post, "/api/worker/claim", json=asked)
        assert sent.wait(10)
        other = stack.enter_context(server.client(server.service))
        other.get("/api/queue/check").raise_for_status()
        began = time.monotonic()
        assert server.stop() == 0
        assert waiting.result().json() == {"leases": []}
        assert time.monotonic() - began < 15


def test_a_stream_that_nobody_reads_ends_also_while_the_sockets_hold_all_of_it(database: str) -> None:
    """What is in the socket's own buffer is no longer seen by the server, but by the system."""
    with served(database, FICHA_WRITE_S="0.5") as server, socket.socket() as deaf:
        key = server.account("ana")
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with server.client(key) as user, server.client(server.service) as service:
            job = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": "x"}}).json()["job_id"]
            deaf.connect(("127.0.0.1", httpx.URL(server.url).port))
            head = f"GET /api/jobs/{job}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
            deaf.sendall(head.encode())
            lease = server.take(job)
            for _ in range(30):
                service.post("/api/worker/log", json={**lease, "text": "a" * 2_000}).raise_for_status()
            until_sync(lambda: any(f"/api/jobs/{job}/events" in line for line in server.lines))
