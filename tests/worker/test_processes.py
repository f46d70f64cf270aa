"""Handlers in child processes: they say and store what they would elsewhere, and their crashes are their own."""

import asyncio
import logging
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ficha import Accepted, Cancel, Partial, Retry
from ficha.core.outcomes import Refusal
from ficha.worker import process_pool as module
from ficha.worker.child_main import LogLine, framed, log_line, to_worker
from ficha.worker.failure import Failure
from ficha.worker.process_pool import ProcessPool
from tests.support.waiting import until
from tests.worker import handlers
from tests.worker.child_runs import LeaseWriter, a_run, children, opened, stays_still


@pytest.fixture
async def processes() -> AsyncIterator[ProcessPool]:
    async with opened() as found:
        yield found


# What a handler gets and says


def test_what_a_child_logs_stays_text_until_it_is_logged() -> None:
    """The worker's loop reads the message: numbers that are slow to read must not cost it anything."""
    told = to_worker.decode(framed(log_line({"msg": "drawn", "numbers": [1e308]}))[4:])
    assert isinstance(told, LogLine)
    assert bytes(told.fields) == b'{"msg":"drawn","numbers":[1e308]}'


async def test_typed_arguments_arrive_in_a_plain_function(processes: ProcessPool) -> None:
    run = a_run(handlers.typed, sketch={"title": "cat", "due": "2031-05-06"}, at="2031-05-06T07:00:00Z")
    assert await processes.call(run) == {"title": "cat", "month": 5, "hour": 7, "count": 2, "id": run.job.id}


async def test_a_payload_that_no_longer_fits_is_the_jobs_error(processes: ProcessPool) -> None:
    failure = await processes.call(a_run(handlers.typed, sketch={"title": 5}, at="soon"))
    assert not failure.final
    assert "does not fit tool typed" in failure.error
    assert "sketch" in failure.error


@pytest.mark.parametrize("handler", [handlers.coroutine_steps, handlers.plain_steps])
async def test_what_a_run_stores_goes_through_its_desk(
    processes: ProcessPool, handler: Callable[..., Any], tmp_path: Path
) -> None:
    store, desk = tmp_path / "calls", LeaseWriter()
    assert await processes.call(a_run(handler, desk, store=store)) == [7, 8, 8, "a", "b", "c"]
    assert store.read_text() == "7\n8\n"
    assert desk.heard == [
        ("save_step", "seven", 7),
        ("save_step", "eight", 8),
        ("checkpoint", "half", {"progress": 50, "data": {"calls": [7, 8, 8]}}),
        *[("save_step", f"letters[{number}]", None) for number in range(3)],
        ("report", {"progress": 70, "partial": {"calls": [7, 8, 8, "a", "b", "c"]}}),
        ("note", "drawn colour=red"),
    ]
    # On its next run nothing is done again.
    assert await processes.call(a_run(handler, desk, epoch=2, store=store)) == [7, 8, 8]
    assert store.read_text() == "7\n8\n"


async def test_what_is_refused_is_refused_by_the_same_class(processes: ProcessPool) -> None:
    desk = LeaseWriter(Refusal("LEASE_LOST", "gone", details={"status": "cancelled"}))
    assert await processes.call(a_run(handlers.stale, desk)) == "LEASE_LOST {'status': 'cancelled'}"


async def test_a_database_that_is_away_is_an_error_of_the_call(processes: ProcessPool) -> None:
    class Away(LeaseWriter):
        async def say(self, verb: str, *args: Any, **options: Any) -> Any:
            raise OSError("the database is away")

    assert (await processes.call(a_run(handlers.stale, Away()))).error == "the database is away"


async def test_a_thread_that_outlives_its_run_cannot_speak_for_the_next(processes: ProcessPool, tmp_path: Path) -> None:
    file, desk = tmp_path / "wake", LeaseWriter()
    assert await processes.call(a_run(handlers.leaves_a_thread, file=file)) is None
    assert await processes.call(a_run(handlers.leaves_a_thread, desk, file=file, wakes=True)) is None
    assert "the run is over" in file.with_suffix(".refused").read_text()
    assert desk.heard == []


async def test_what_else_a_handler_can_return_arrives_as_it_is(processes: ProcessPool) -> None:
    returned = {
        "partial": Partial([1, 2, 3], 3, 4),
        "retry": Retry(5.0, "later"),
        "cancel": Cancel("no use"),
        "accepted": Accepted("ref-1"),
        "nothing": None,
    }
    for kind, value in returned.items():
        found = await processes.call(a_run(handlers.values, kind=kind))
        assert (type(found), found) == (type(value), value)


async def test_what_is_not_json_is_an_error_that_says_so(processes: ProcessPool) -> None:
    said = {
        "set": "the result cannot be stored: the result holds a bytes, which is not JSON",
        "object": "the result cannot be stored: the result holds a object, which is not JSON",
        "deep": "the result cannot be stored: the result is nested too deep",
        "large": "the result cannot be stored: the result is 70000002 bytes of JSON, more than the",
        "surrogate": "the result cannot be stored: the result holds a lone surrogate",
        "step": "the result of the step 'odd' cannot be stored: a value given to the job holds a bytes",
    }
    for kind, words in said.items():
        failure = await processes.call(a_run(handlers.unfit, kind=kind))
        assert failure.error.startswith(words)
        assert failure.final
    assert len(children()) == 1


@pytest.mark.parametrize("handler", [handlers.raises, handlers.plain_raises])
async def test_what_a_handler_raises_is_the_jobs_error(processes: ProcessPool, handler: Callable[..., Any]) -> None:
    said = {
        "plain": ("the provider said no", False),
        "silent": ("KeyError", False),
        "final": ("the image is forbidden", True),
        "fatal": ("it went off", True),
        "exit": ("the handler raised SystemExit: 3", False),
        "interrupt": ("the handler raised KeyboardInterrupt", False),
        "cancelled": ("the handler was cancelled from inside", False),
        "surrogate": ("half of ?", False),
    }
    for kind, words in said.items():
        found = await processes.call(a_run(handler, kind=kind, fatal_=(handlers.Spoilt,)))
        assert ((found.error, found.final), found.lost) == (words, False)
        assert kind == "cancelled" or f"in {handler.__name__}" in found.traceback
    assert len(children()) == 1


async def test_lines_of_the_log_are_written_by_the_workers_own_handlers(
    processes: ProcessPool, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    assert await processes.call(a_run(handlers.talks)) is None
    first, second = (record for record in caplog.records if record.name == "shop.handlers")
    assert (first.getMessage(), first.levelname, first.colour) == ("to the log", "INFO", "red")  # type: ignore[attr-defined]
    assert first.process in children()
    assert "ValueError: on the way" in second.getMessage()
    assert capfd.readouterr().out == "to stdout\n"


# Crashes


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exit", "the job's process exited with 3 without a result"),
        ("segfault", "the job's process was ended by signal 11 (SIGSEGV)"),
        ("kill", "the job's process was ended by signal 9 (SIGKILL)"),
    ],
)
async def test_a_handler_that_takes_its_process_down_is_lost(processes: ProcessPool, how: str, words: str) -> None:
    assert await processes.call(a_run(handlers.dies, how=how)) == Failure(words, lost=True)
    assert children() == []


async def test_a_crash_is_noticed_though_a_fork_keeps_the_pipe_open(processes: ProcessPool, tmp_path: Path) -> None:
    file = tmp_path / "grows"
    failure = await processes.call(a_run(handlers.forks, file=file))
    assert failure == Failure("the job's process exited with 4 without a result", lost=True)
    assert await stays_still(file)


async def test_a_handler_may_have_processes_of_its_own(
    processes: ProcessPool, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await processes.call(a_run(handlers.pools)) == [0, 2, 4, 6]
    assert sorted(capfd.readouterr().err.splitlines()) == [f"doubling {number}" for number in range(4)]


async def test_a_fork_that_comes_back_does_not_speak_for_the_job(processes: ProcessPool) -> None:
    assert await processes.call(a_run(handlers.comes_back_twice)) == "parent"
    assert isinstance(await processes.call(a_run(handlers.pid)), int)


async def test_a_handler_that_cannot_be_imported_is_an_error_not_a_hang(
    processes: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(handlers.pid)
    monkeypatch.setattr(handlers.pid, "__module__", "no.such.shop")
    failure = await processes.call(run)
    assert failure == Failure(
        "the job's process could not import no.such.shop.pid: ModuleNotFoundError: No module named 'no'"
    )
    await until(lambda: children() == [])


async def test_a_machine_without_room_for_a_process_puts_the_job_off(processes: ProcessPool) -> None:
    run = a_run(handlers.pid)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, files[1]))
    try:
        found = await processes.call(run)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    assert isinstance(found, Retry)
    assert "Too many open files" in str(found.reason)
    assert isinstance(await processes.call(run), int)


# Memory, and what is kept


async def test_the_memory_limit_holds_at_its_edge(processes: ProcessPool) -> None:
    limits: dict[str, Any] = {"memory_mb_": 320}
    too_large = Failure("the job used more than its memory_mb (320)", lost=True)
    assert await processes.call(a_run(handlers.fills, mb=160, **limits)) == 160
    assert await processes.call(a_run(handlers.fills, mb=320, **limits)) == too_large
    # What a run keeps is gone with its process.
    assert await processes.call(a_run(handlers.fills, mb=160, keeps=True, **limits)) == too_large
    assert await processes.call(a_run(handlers.fills, mb=160, **limits)) == 160


async def test_a_limit_below_what_the_module_needs_is_an_error_that_says_so(processes: ProcessPool) -> None:
    failure = await processes.call(a_run(handlers.plain_pid, memory_mb_=1))
    assert failure == Failure("the job used more than its memory_mb (1)", lost=True)


async def test_a_child_is_kept_and_replaced_after_its_jobs(processes: ProcessPool) -> None:
    pids = [await processes.call(a_run(handlers.pid, recycle_after_=3)) for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


async def test_there_are_as_many_children_as_ran_at_once(processes: ProcessPool, tmp_path: Path) -> None:
    waits = [asyncio.create_task(processes.call(a_run(handlers.loops, file=tmp_path / str(n)))) for n in range(2)]
    await until(lambda: all((tmp_path / str(n)).exists() for n in range(2)))
    assert len(children()) == 2
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    one = await processes.call(a_run(handlers.pid))
    assert await processes.call(a_run(handlers.pid)) == one
    assert children() == [one]


async def test_an_idle_child_ends(processes: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.2)
    first = await processes.call(a_run(handlers.pid))
    await until(lambda: not psutil.pid_exists(first))
    assert await processes.call(a_run(handlers.pid)) != first


async def test_a_kept_child_that_was_killed_is_not_used(processes: ProcessPool) -> None:
    first = await processes.call(a_run(handlers.pid))
    os.kill(first, signal.SIGKILL)
    await until(lambda: not psutil.pid_exists(first))
    assert await processes.call(a_run(handlers.pid)) != first
