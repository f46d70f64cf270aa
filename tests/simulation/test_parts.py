"""The simulator's own parts: time that jumps, processes that stop and die, locks that are passed on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from ficha.store.base import Transient, Unavailable

from .database import Database
from .decisions import Decisions
from .faults import draw_faults
from .locks import LOCK_TIMEOUT_S, Locks, Owner
from .loop import Process, VirtualLoop
from .machines import Lost, Machine, serving
from .trace import Trace
from .world import _Nobody


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop(Random(0))
    yield loop
    if not loop.is_closed():
        loop.bury([])


def test_a_day_passes_at_once(loop: VirtualLoop) -> None:
    loop.run_until_complete(asyncio.sleep(86_400))
    assert loop.time() == 86_400


def test_a_thread_is_refused(loop: VirtualLoop) -> None:
    with pytest.raises(AssertionError, match="asks for a thread"):
        loop.run_until_complete(asyncio.to_thread(print))


def test_a_process_that_stands_still_goes_on_where_it_was(loop: VirtualLoop) -> None:
    process, seen = Process("one"), []

    async def ticks() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(loop.time())

    task = loop.create_task(ticks(), context=process.context)
    loop.call_at(1.5, loop.stop_process, process)
    loop.call_at(10.0, loop.continue_process, process)
    loop.run_until_complete(task)
    assert seen == [1.0, 10.0, 11.0]


def test_the_code_of_a_killed_process_vanishes_at_its_await(loop: VirtualLoop) -> None:
    process, seen = Process("one"), []

    async def work() -> None:
        try:
            await asyncio.sleep(2)
            seen.append("done")
        finally:
            seen.append("cleaned up")

    loop.create_task(work(), context=process.context)
    loop.call_at(1.0, loop.kill_process, process)
    loop.run_until_complete(asyncio.sleep(100))
    assert seen == []
    loop.bury([process])


def test_a_fuse_goes_off_between_two_awaits(loop: VirtualLoop) -> None:
    process, seen = Process("one"), []
    process.fuse, process.explode = 3, lambda: loop.kill_process(process)

    async def work() -> None:
        for number in range(10):
            seen.append(number)
            await asyncio.sleep(0)

    loop.create_task(work(), context=process.context)
    loop.run_until_complete(asyncio.sleep(1))
    assert seen == [0, 1, 2]
    loop.bury([process])


def test_the_order_within_a_process_is_kept_and_between_processes_drawn(loop: VirtualLoop) -> None:
    seen: list[tuple[str, int]] = []
    for name in ("one", "two"):
        process = Process(name)
        for number in range(20):
            loop.call_soon(seen.append, (name, number), context=process.context)
    loop.run_until_complete(asyncio.sleep(1))
    for name in ("one", "two"):
        assert [number for who, number in seen if who == name] == list(range(20))
    assert [who for who, _ in seen] != ["one"] * 20 + ["two"] * 20


def test_a_lock_goes_to_whoever_waited_first(loop: VirtualLoop) -> None:
    locks, owners, seen = Locks(), [Owner() for _ in range(3)], []

    async def hold(number: int) -> None:
        await locks.wait(owners[number], ("account", "a"))
        seen.append(number)
        await asyncio.sleep(1)
        locks.release(owners[number])

    async def all_of_them() -> None:
        await asyncio.gather(*(hold(number) for number in range(3)))

    loop.run_until_complete(all_of_them())
    assert (seen, len(locks)) == ([0, 1, 2], 0)


def test_a_lock_that_is_held_for_too_long_and_a_circle_of_locks_are_conflicts(loop: VirtualLoop) -> None:
    locks, one, two = Locks(), Owner(), Owner()

    async def story() -> None:
        await locks.wait(one, ("account", "a"))
        await locks.wait(two, ("account", "b"))
        waiting = asyncio.ensure_future(locks.wait(one, ("account", "b")))
        await asyncio.sleep(0)
        with pytest.raises(Transient, match="deadlock"):
            await locks.wait(two, ("account", "a"))
        with pytest.raises(Transient, match="too long"):
            await waiting

    loop.run_until_complete(story())
    assert (locks.deadlocks, loop.time()) == (1, LOCK_TIMEOUT_S)


def test_a_transaction_that_was_ended_gets_no_more_locks(loop: VirtualLoop) -> None:
    locks, one = Locks(), Owner()
    locks.release(one)
    with pytest.raises(Unavailable):
        loop.run_until_complete(locks.wait(one, ("account", "a")))
    assert len(locks) == 0


def test_a_server_that_stood_still_carries_out_a_call_whose_caller_is_gone_unless_it_crashes(loop: VirtualLoop) -> None:
    faults = draw_faults(Random(0))
    faults.calm()
    database = Database(loop, faults, Random(0), "postgres")
    seen: list[float] = []

    class Bare(Machine):
        async def _main(self, process: Process) -> None:
            self.app = object()

    async def act(app: object) -> None:
        await asyncio.sleep(1)
        seen.append(loop.time())

    async def give_up() -> bool:
        with pytest.raises(Lost):
            await machine.call(act)
        return machine.is_serving

    async def story() -> None:
        await asyncio.sleep(1)
        loop.call_later(0.5, machine.stop, 25.0)
        assert await give_up()
        await asyncio.sleep(30)
        assert (len(seen), machine.is_serving) == (1, False)
        loop.call_later(0.5, machine.crash)
        assert not await give_up()

    machine = Bare("server", serving, loop, database, Decisions(), Random(0), _Nobody(False), Trace(loop))
    loop.run_until_complete(story())
    loop.bury(machine.buried)
