"""The measures of serving run and write what they should, and their clients count rightly; how fast anything is, no
test says."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.serving.load_side import Load
from benchmarks.serving.sizes import QUICK
from benchmarks.serving.throughput import ROUTES
from benchmarks.serving.wire import Stream
from benchmarks.workload import ACCOUNTS

ROOT = Path(__file__).parent.parent
CREATED = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}"
STANDS_STILL_S = 0.3


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("database", "name"), [("postgres", "PostgreSQL"), ("sqlite", "SQLite")])
def test_a_quick_run_writes_results_that_do_not_name_the_machine(database: str, name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.serving", "--quick", "--database", database, "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    measures = json.loads((tmp_path / "serving.json").read_text(encoding="utf-8"))["measures"]
    check_streams(measures["streams"]["figures"][name])
    (throughput,) = measures["throughput"]["figures"].values()
    assert list(throughput) == list(ROUTES)
    assert all(figure["per_second"] > 0 and figure["ratio"] > 0 for figure in throughput.values())
    text = (tmp_path / "SERVING.md").read_text(encoding="utf-8")
    assert f"### {name}: {QUICK.rate} submits a second beside {QUICK.streams} streams" in text
    for private in (str(ROOT), "/tmp", "host="):  # noqa: S108 (looked for, not written to)
        assert private not in text + json.dumps(measures)


def check_streams(found: dict[str, Any]) -> None:
    wrong = {key: found[key] for key in ("failed", "complaints", "missing")}
    assert wrong == {"failed": 0, "complaints": 0, "missing": 0}
    assert found["alive"] == QUICK.streams
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
    # Each job that was submitted had three events or more, and each that waited at least two after its stream was open.
    assert found["account_lag"]["events"] >= 3 * QUICK.rate * QUICK.submit_s
    assert found["job_lag"]["events"] >= 2 * (QUICK.streams - QUICK.account_streams)
    assert {"server", "worker", "submitting", "following"} <= found["cores"].keys()


async def test_a_stream_is_heard_the_same_in_whatever_pieces_it_comes() -> None:
    for size in (1, 2, 7, 1_000):
        stream = Stream()
        # A little later than now: an instant in JSON is cut off at its microsecond.
        text = streamed((datetime.now(UTC) + timedelta(milliseconds=1)).isoformat())
        for start in range(0, len(text), size):
            stream.data_received(text[start : start + size])
        assert await stream.began == 200
        assert stream.kinds == {"submitted": 1, "completed": 1}
        assert (stream.keep_alives, stream.is_ended, stream.is_in_order) == (1, True, True)
        # Only what happened since the stream was there is timed.
        assert [abs(lag_s) < 10 for lag_s in stream.lags_s] == [True]


def streamed(now: str) -> bytes:
    """An answer that is a stream: an old event, a new one, and the end."""
    messages = [
        'id: 7\nevent: submitted\ndata: {"at": "2026-01-01T00:00:00Z"}\n\n: keep-alive\n\n',
        f'id: 9\nevent: completed\ndata: {{"at": "{now}"}}\n\n',
        "event: end\ndata: {}\n\n",
    ]
    chunks = "".join(f"{len(message):x}\r\n{message}\r\n" for message in (*messages, ""))
    return f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}".encode()


async def test_submits_that_a_server_keeps_waiting_count_from_when_they_were_due() -> None:
    async def stand_still_once(number: int) -> bytes:
        if number == 0:
            await asyncio.sleep(STANDS_STILL_S)
        return CREATED

    async with answering(stand_still_once) as load:
        found = await load.submit(rate=200, seconds=0.1, lanes=1)
    assert (found["asked"], found["failed"], sum(found["created"])) == (20, 0, 20)
    # The server took its time once, and all who were due meanwhile waited for what was left of it.
    assert min(found["took_ms"]) > (STANDS_STILL_S - 0.1) * 1_000


async def test_submits_that_are_refused_or_cut_off_have_failed() -> None:
    async def answer(number: int) -> bytes:
        return (CREATED, b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 5\r\n\r\nlater", b"")[number % 3]

    async with answering(answer) as load:
        found = await load.submit(rate=1_000, seconds=0.009, lanes=1)
    assert (found["asked"], found["failed"], sum(found["created"])) == (9, 6, 3)
    assert found["failures"][:2] == [
        "HTTP/1.1 503 Service Unavailable: later",
        "connection lost: the server closed the connection",
    ]


@asynccontextmanager
async def answering(answer: Any) -> AsyncIterator[Load]:
    """Submits to a server that answers each with what is said to its number; nothing at all ends the connection."""
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while head := await reader.read(65_536):
            assert head.startswith(b"POST /api/jobs HTTP/1.1\r\n")
            text = await answer(asked)
            asked += 1
            writer.write(text)
            if not text:
                break
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        load = Load(server.sockets[0].getsockname()[1])
        await load.prepare(keys=["key"] * ACCOUNTS, jobs=[])
        yield load
