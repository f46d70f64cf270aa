"""Long work on the event loop: in slices, by turns, so that others go on meanwhile."""

import asyncio
from collections.abc import Iterator

import pytest

from ficha.engine import slices
from ficha.engine.slices import SLICE_S, Slices

STEPS = 40


class Clock:
    """Stands still but for the work that is done."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def work(self, done: list[str], name: str, steps: int = STEPS) -> Iterator[int]:
        """Work of which four steps fill a slice."""
        for number in range(steps):
            self.now += SLICE_S / 4
            done.append(name)
            yield number


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(slices, "time", made)
    monkeypatch.setattr(slices, "REST_S", 0)
    return made


async def test_work_gives_all_that_its_steps_give(clock: Clock) -> None:
    assert await Slices().all_of("ana", clock.work([], "ana")) == list(range(STEPS))
    assert await Slices().all_of("ana", iter(())) == []


async def test_others_go_on_between_the_slices(clock: Clock) -> None:
    done: list[str] = []
    task = asyncio.create_task(Slices().all_of("ana", clock.work(done, "ana")))
    seen = []
    while not task.done():
        await asyncio.sleep(0)
        seen.append(len(done))
    assert max(after - before for before, after in zip([0, *seen], seen, strict=False)) == 4
    assert len(seen) >= STEPS // 4


async def test_accounts_take_turns_and_one_accounts_works_come_one_after_the_other(clock: Clock) -> None:
    long, done = Slices(), []
    await asyncio.gather(
        long.all_of("ana", clock.work(done, "first")),
        long.all_of("ana", clock.work(done, "second")),
        long.all_of("bob", clock.work(done, "other")),
    )
    assert done.index("second") > max(at for at, name in enumerate(done) if name == "first")
    # The other account's work is done in half of the slices from the beginning, not after the first account's.
    assert done[:24].count("other") == 12


async def test_short_work_is_done_without_a_pause(clock: Clock) -> None:
    coroutine = Slices().all_of("ana", clock.work([], "ana", 3))
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    assert ended.value.value == [0, 1, 2]


async def test_work_that_fails_ends_its_turn(clock: Clock) -> None:
    def broken() -> Iterator[int]:
        yield from clock.work([], "ana", 6)
        raise ValueError("a payload does not fit")

    long = Slices()
    with pytest.raises(ValueError, match="does not fit"):
        await long.all_of("ana", broken())
    assert await long.all_of("ana", clock.work([], "ana")) == list(range(STEPS))


async def test_work_gives_way_to_a_busy_event_loop(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that ends late is followed by a longer one."""
    pauses: list[float] = []
    for late_s, longer in ((0.0, []), (0.002, [0.008]), (1.0, [slices.REST_MAX_S])):

        async def sleep(seconds: float, late_s: float = late_s) -> None:
            pauses.append(seconds)
            clock.now += seconds + late_s

        monkeypatch.setattr(asyncio, "sleep", sleep)
        pauses.clear()
        await Slices().all_of("ana", clock.work([], "ana", 5))
        assert pauses == [0, *map(pytest.approx, longer)]


async def test_who_stops_waiting_leaves_the_turn_to_others(clock: Clock) -> None:
    long = Slices()
    given_up = asyncio.create_task(long.all_of("ana", clock.work([], "ana", 1_000)))
    waiting = asyncio.create_task(long.all_of("ana", clock.work([], "ana")))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await waiting == list(range(STEPS))
    assert given_up.cancelled()
