"""`--watch`: a person sees where the job stands, a log gets a line per change, and the end says how it ended."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from ficha import Ficha
from tests.cli.conftest import FICHA
from tests.cli.running import Run
from tests.cli.terminals import terminal
from tests.stores.proxy import ANYTHING, proxied

Shop = Callable[[], Ficha]
SUBMIT = ("submit", "draw", '{"prompt": "cat"}', "--account", "ana", "--watch")


@pytest.fixture
def ready(ficha: Run, folder: Path, shop: Shop) -> Shop:
    ficha("account", "create", "ana", "--credits", "100")
    return shop


@asynccontextmanager
async def working(shop: Shop) -> AsyncIterator[Callable[[], None]]:
    """A worker within this process; what is given lets its handlers go on to their end."""
    async with shop() as app:
        worker = asyncio.create_task(app.run_worker())
        try:
            yield sys.modules["app"].go.set
        finally:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker


async def lines_until(words: str, stream: asyncio.StreamReader) -> list[str]:
    """The lines up to the one with these words."""
    lines: list[str] = []
    while not lines or words not in lines[-1]:
        line = await asyncio.wait_for(stream.readline(), 30)
        assert line, f"{words!r} never came, but {lines}"
        lines.append(line.decode().rstrip("\n"))
    return lines


async def test_a_terminal_shows_the_position_then_a_bar_then_the_result(ready: Shop, folder: Path) -> None:
    with terminal(*SUBMIT, cwd=folder) as screen:
        await asyncio.to_thread(screen.wait_for, "queued: position 1")
        async with working(ready) as go:
            await asyncio.to_thread(screen.wait_for, "HALF [red]way")
            await asyncio.to_thread(screen.wait_for, "50 %")
            await asyncio.to_thread(screen.wait_for, 'so far: ["sketch"]')
            go()
            assert await asyncio.to_thread(screen.end) == 0
    assert "the job is queued at position 1; 5 credits, 95 left" in screen.shown
    assert "completed in " in screen.shown
    assert screen.shown.endswith('{\r\n  "picture": "cat x1"\r\n}\r\n')
    assert "\x1b[?25h" in screen.raw, "the cursor is shown again"


async def test_ctrl_c_ends_the_watching_and_not_the_job(ready: Shop, folder: Path, ficha: Run) -> None:
    with terminal(*SUBMIT, cwd=folder) as screen:
        await asyncio.to_thread(screen.wait_for, "queued: position 1")
        screen.press_ctrl_c()
        assert await asyncio.to_thread(screen.end) == 130
    (job,) = ficha("jobs", "--json").items
    assert f"it continues. Watch it again: ficha watch {job['id']}" in screen.shown
    assert "Traceback" not in screen.shown
    assert job["status"] == "queued"


async def test_a_pipe_gets_a_line_per_change_and_the_result_alone(ready: Shop, folder: Path) -> None:
    watching = await asyncio.create_subprocess_exec(
        FICHA, *SUBMIT, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert watching.stderr is not None
    lines = await lines_until("queued: position 1", watching.stderr)
    async with working(ready) as go:
        lines += await lines_until("HALF", watching.stderr)
        lines += [] if 'so far: ["sketch"]' in lines else await lines_until('so far: ["sketch"]', watching.stderr)
        go()
        out, err = await asyncio.wait_for(watching.communicate(), 30)
    assert (watching.returncode, out) == (0, b'{"picture":"cat x1"}\n')
    assert not {"\x1b", "\r"} & set("".join(lines) + err.decode())
    first, named, *changes, last = [*lines, *err.decode().splitlines()]
    assert first == "the job is queued at position 1; 5 credits, 95 left"
    assert named.startswith("job ")
    assert changes[0] == "queued: position 1"
    assert set(changes[-2:]) == {"running: 50 % HALF [red]way", 'so far: ["sketch"]'}
    assert len(set(changes)) == len(changes)
    assert last.startswith("completed in ")


async def test_interrupted_in_a_pipe_it_says_how_to_go_on(ready: Shop, folder: Path) -> None:
    watching = await asyncio.create_subprocess_exec(
        FICHA, *SUBMIT, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert watching.stderr is not None
    await lines_until("queued: position 1", watching.stderr)
    watching.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(watching.communicate(), 30)
    assert (watching.returncode, out) == (130, b"")
    assert err.decode().startswith("no longer watching, but it continues. Watch it again: ficha watch ")


async def test_the_end_of_the_job_is_the_end_of_the_command(ready: Shop, ficha: Run) -> None:
    failed = ficha("submit", "broken", "--account", "ana").out.strip()
    cancelled = ficha("submit", "broken", "--account", "ana").out.strip()
    ficha("cancel", cancelled, "--reason", "changed my mind")
    async with ready() as app:
        await app.run_worker(burst=True)
    done = ficha("watch", failed, expect=1)
    assert (done.out, done.err) == ("", "failed: the provider said\\n\\x1b[31mno; 3 credits refunded\n")
    done = ficha("watch", cancelled, expect=3)
    assert (done.out, done.err) == ("", "cancelled: changed my mind; 3 credits refunded\n")
    assert ficha("watch", failed, "--json", expect=1).data["status"] == "failed"
    assert ficha("watch", cancelled, "--json", expect=3).data["status"] == "cancelled"
    assert ficha("watch", "nonsense", expect=1).err.endswith("[NOT_FOUND]\n")


async def test_a_watched_submit_prints_one_document(ready: Shop, ficha: Run) -> None:
    async with working(ready) as go:
        go()
        done = await asyncio.to_thread(ficha, *SUBMIT, "--json")
        assert (done.data["status"], done.data["result"]) == ("completed", {"picture": "cat x1"})
        split = await asyncio.to_thread(
            ficha, "submit", "images", "--field", "n=5", "--account", "ana", "--watch", "--json"
        )
        assert (split.data["status"], split.data["progress"], len(split.data["parts"])) == ("completed", 100, 2)
        assert split.data["result"] == [[0] * 3, [0] * 2]
        for found in (split.data["id"], split.data["batch"]):
            again = await asyncio.to_thread(ficha, "watch", found)
            assert (again.data, again.err.startswith("completed in ")) == (split.data["result"], True)


async def test_a_connection_that_breaks_does_not_end_the_watching(migrated_url: str, folder: Path) -> None:
    async with proxied(migrated_url) as (proxy, through), Ficha(migrated_url) as app:
        app.tool(name="draw")(lambda job: None)
        await app.open_account("ana")
        job_id = (await app.submit("draw", account="ana")).job_id
        watching = await asyncio.create_subprocess_exec(
            FICHA, "watch", job_id, "--database", through, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert watching.stderr is not None
        await lines_until("queued: position 1", watching.stderr)
        proxy.at = ANYTHING
        for cuts in range(1, 4):
            proxy.cut = "before commit"
            while proxy.cuts < cuts:  # noqa: ASYNC110 (the proxy has no event to wait for)
                await asyncio.sleep(0.01)
        await app.cancel(job_id, reason="enough")
        _, err = await asyncio.wait_for(watching.communicate(), 30)
    assert watching.returncode == 3
    assert err.decode().endswith("cancelled: enough; 0 credits refunded\n")
