"""What is stopped in a child process has stopped: nothing of it outlives its job, its worker or its program."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from ficha.worker.process_pool import ProcessPool
from tests.support.waiting import until
from tests.worker import handlers
from tests.worker.child_runs import LeaseWriter, a_run, children, opened, size_of, stays_still


@pytest.fixture
async def processes() -> AsyncIterator[ProcessPool]:
    async with opened() as found:
        yield found


# Stopping a run


@pytest.mark.parametrize("handler", [handlers.sleeps, handlers.loops, handlers.spins])
async def test_a_handler_that_is_stopped_may_clean_up(
    processes: ProcessPool, handler: Callable[..., Any], tmp_path: Path
) -> None:
    file, desk = tmp_path / "grows", LeaseWriter()
    call = asyncio.create_task(processes.call(a_run(handler, desk, file=file)))
    await until(file.exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert children() == []
    assert file.with_suffix(".end").read_text().startswith("cancelled")
    stopped = ("checkpoint", "stopped", {"progress": 1, "data": None})
    assert (stopped in desk.heard) is (handler is handlers.sleeps)


@pytest.mark.parametrize("handler", [handlers.ignores, handlers.blocks, handlers.refuses_signals])
async def test_a_handler_that_does_not_listen_is_ended_with_all_it_started(
    processes: ProcessPool, handler: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "grows"
    call = asyncio.create_task(processes.call(a_run(handler, file=file, stop_grace_=0.2)))
    await until(file.exists)
    began_at = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert 0.2 <= time.monotonic() - began_at < 10
    assert children() == []
    assert await stays_still(file)


async def test_whoever_is_in_a_hurry_cancels_again(processes: ProcessPool, tmp_path: Path) -> None:
    file = tmp_path / "grows"
    call = asyncio.create_task(processes.call(a_run(handlers.ignores, file=file, stop_grace_=60)))
    await until(file.exists)
    for _ in range(2):
        call.cancel()
        await asyncio.sleep(0.05)
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await call
    assert await stays_still(file)


async def test_a_child_that_has_only_begun_is_ended_at_once(processes: ProcessPool) -> None:
    call = asyncio.create_task(processes.call(a_run(handlers.pid, stop_grace_=60)))
    await until(children)
    call.cancel()
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await call
    assert children() == []


async def test_signals_for_the_whole_family_are_left_to_the_worker(processes: ProcessPool, tmp_path: Path) -> None:
    file = tmp_path / "grows"
    call = asyncio.create_task(processes.call(a_run(handlers.loops, file=file)))
    await until(file.exists)
    (pid,) = children()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    size = size_of(file)
    await until(lambda: size_of(file) > size + 30)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.parametrize("handler", [handlers.ignores, handlers.blocks, handlers.refuses_signals])
async def test_closing_ends_children_in_the_middle_of_their_jobs(handler: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "grows"
    async with opened() as processes, asyncio.timeout(40):
        call = asyncio.create_task(processes.call(a_run(handler, file=file)))
        await until(file.exists)
        await processes.close()
        assert (await call).lost
        assert await stays_still(file)


def test_it_works_on_uvloop(tmp_path: Path) -> None:
    async def main() -> None:
        desk, file = LeaseWriter(), tmp_path / "grows"
        async with opened() as processes:
            assert len(await processes.call(a_run(handlers.plain_steps, desk, store=tmp_path / "calls"))) == 6
            assert (await processes.call(a_run(handlers.dies, how="kill"))).lost
            call = asyncio.create_task(processes.call(a_run(handlers.ignores, file=file, stop_grace_=0)))
            await until(file.exists)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            assert await stays_still(file)

    uvloop.run(main())


# As programs of their own

SCRIPT = """
import asyncio, sys
from ficha import Ficha
from tests.worker import handlers

app = Ficha("memory:")

@app.tool(isolation="process")
def where(job) -> str:
    return __name__

for handler in (handlers.pid, handlers.ignores, handlers.blocks):
    app.tool(isolation="process")(handler)

async def main(tool, file=None):
    async with app:
        await app.open_account("ana")
        await app.submit("pid", account="ana")
        receipt = await app.submit(tool, {} if file is None else {"file": file}, account="ana")
        await app.run_worker(burst=True)
        job = await app.job(receipt.job_id)
        print(job.status, job.result or job.error)
"""
GUARDED = SCRIPT + '\nif __name__ == "__main__":\n    asyncio.run(main(*sys.argv[1:]))\n'
UNGUARDED = SCRIPT + "\nasyncio.run(main(*sys.argv[1:]))\n"
UNCLOSED = """
import asyncio, sys
from pathlib import Path
from tests.worker import handlers
from ficha.worker.process_pool import ProcessPool
from tests.support.waiting import until
from tests.worker.child_runs import a_run

async def main():
    processes = ProcessPool("w1")
    await processes.call(a_run(handlers.pid))
    call = asyncio.create_task(processes.call(a_run(handlers.ignores, file=sys.argv[1], stop_grace_=60)))
    await until(Path(sys.argv[1]).exists)
    raise ValueError("nobody closes")

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a script that runs a worker."""
    started = []

    def start(script: str, *arguments: str) -> subprocess.Popen[str]:
        (tmp_path / "script.py").write_text(script)
        command = [sys.executable, str(tmp_path / "script.py"), *arguments]
        paths = os.pathsep.join(["src", "."])
        started.append(
            subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env={**os.environ, "PYTHONPATH": paths})
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_handler_may_stand_in_the_main_script(start: Callable[..., subprocess.Popen[str]]) -> None:
    out, errors = start(GUARDED, "where").communicate(timeout=60)
    assert (out, errors) == ("completed __mp_main__\n", "")


CELL = """
from ficha import Ficha
app = Ficha("memory://")
def ready(): ...
@app.tool
async def light(job): ...
try:
    @app.tool(isolation="process"{setup})
    def heavy(job): ...
except ValueError as error:
    print(error)
else:
    print("declared")
"""


@pytest.mark.parametrize(
    ("setup", "named"), [("", "a handler that a new process can import: heavy"), (", setup=ready", "heavy")]
)
def test_a_tool_of_a_notebook_cannot_have_processes_and_is_told_where_to_write_it(
    tmp_path: Path, setup: str, named: str
) -> None:
    """What runs at a prompt, in a cell or from a pipe is in no file that a new process could import."""
    cell = CELL.replace("{setup}", setup)
    for arguments, piped in ((["-"], cell), (["-i", "-q"], ""), (["-c", cell], "")):
        given = piped or "exec(" + repr(cell) + ")\n"
        command = [sys.executable, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=True)
        assert named in done.stdout
        assert (
            "is in a notebook or an interactive session; write it in a module (a .py file) and import that"
            in done.stdout
        )
    (tmp_path / "cells.py").write_text(cell)
    for command in ([str(tmp_path / "cells.py")], ["-m", "cells"]):
        command = [sys.executable, *command]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == "declared\n"


def test_a_main_script_that_starts_a_worker_when_imported_is_told_so(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    out, errors = start(UNGUARDED, "where").communicate(timeout=60)
    assert out == "failed the job's process exited with 1 before it could begin; the worker's stderr says why\n"
    assert 'start it under `if __name__ == "__main__":`' in errors


@pytest.mark.parametrize("tool", ["ignores", "blocks"])
async def test_a_killed_worker_leaves_no_child(
    tool: str, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    file = tmp_path / "grows"
    worker = start(GUARDED, tool, str(file))
    await until(file.exists)
    family = psutil.Process(worker.pid).children(recursive=True)
    assert len(children(worker.pid)) == 2
    worker.kill()
    await until(lambda: not any(member.is_running() and member.status() != "zombie" for member in family))
    assert await stays_still(file)


async def test_a_program_that_closes_nothing_still_ends_and_leaves_no_child(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    file = tmp_path / "grows"
    program = start(UNCLOSED, str(file))
    _, errors = await asyncio.to_thread(program.communicate, timeout=60)
    assert errors.endswith("ValueError: nobody closes\n")
    assert await stays_still(file)
