"""The figures of commits are added up, each once, in whatever order commits appear and whoever adds them up."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ficha.core import commands as c
from ficha.core.figures import CURSOR, total
from ficha.core.policy import Policy
from ficha.core.records import FigureCursor, Figures, JobCounts, QueueCount, Rollup
from ficha.engine import figures as module
from ficha.engine import settled_commits, sweeper
from ficha.engine.engine import Engine
from ficha.engine.figures import FigureFolder
from ficha.engine.settled_commits import Settled, SettledCommits
from ficha.store.base import (
    CommitFigures,
    FigurePoint,
    GetFigurePoint,
    GetQueueCounts,
    Horizon,
    ListFigures,
    ListOldRollups,
    QueueCounts,
)
from ficha.store.postgres import PostgresStore
from tests.core.world import World
from tests.engine.engine_setup import POLICY, StoreSetup, claimed, one, opened, submit
from tests.engine.interleaved_commits import Commits
from tests.support.figure_sums import as_the_state_says

NEVER_S = float("inf")
ADD_COMMIT = "INSERT INTO ficha.commits (at, size, events, figures) VALUES (now(), 0, '[]', '{\"charged\": 7}')"


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECOND_LOOK_S", 0.0)


async def added_up(setup: StoreSetup, level: str = "hour") -> Figures:
    state = await setup.state()
    return total(one.figures for key, one in state.of(Rollup).items() if key.startswith(level))


async def cursor(setup: StoreSetup) -> FigureCursor:
    return (await setup.state()).of(FigureCursor)[CURSOR]


async def some_lives(engine: Engine) -> None:
    """Jobs in every state."""
    for _ in range(5):
        await one(engine, submit(jobs=2))
    for lease in await claimed(engine, limit=4):
        await one(engine, c.Finish(lease.job.id, c.Completed("1"), lease.epoch))
    await claimed(engine, limit=2)


async def fold_all(engine: Engine) -> int:
    turns = 1
    while await engine.figures.fold():
        turns += 1
    return turns


# On every store


async def test_the_sums_say_what_the_jobs_and_the_ledger_say(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    for _ in range(3):
        await some_lives(engine)
        setup.clock.advance(61)
        await fold_all(engine)
        assert await added_up(setup) == await added_up(setup, "minute") == as_the_state_says(await setup.state())
    waiting = [QueueCount(*name) for name in (("pro", "draw", "gpu", 12, 0),)]
    assert [*(await cursor(setup)).waiting] == waiting


async def test_what_several_add_up_at_once_counts_once(setup: StoreSetup) -> None:
    engines = [await setup.engine() for _ in range(3)]
    await opened(engines[0])
    await some_lives(engines[0])
    await asyncio.gather(*(engine.figures.fold() for engine in engines))
    await some_lives(engines[1])
    await asyncio.gather(*(fold_all(engine) for engine in engines))
    assert await added_up(setup) == as_the_state_says(await setup.state())


async def test_while_nothing_happens_nothing_is_written(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    await some_lives(engine)
    await fold_all(engine)
    before = await setup.state()
    for _ in range(3):
        setup.clock.advance(3_600)
        assert not await engine.figures.fold()
    assert await setup.state() == before


async def test_a_turn_does_a_bounded_part_and_the_next_ones_catch_up(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    monkeypatch.setattr(module, "PAGES", 2)
    engine = await opened(await setup.engine())
    for _ in range(9):
        await one(engine, submit())
    assert await engine.figures.fold()
    some = sum(counts.submitted for counts in (await added_up(setup)).counts)
    assert 0 < some <= 4
    assert await fold_all(engine) >= 2
    assert await added_up(setup) == as_the_state_says(await setup.state())


async def test_commits_that_were_deleted_before_are_a_gap_and_the_queue_is_counted_anew(
    setup: StoreSetup, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await opened(await setup.engine())
    await one(engine, submit(jobs=3))
    await fold_all(engine)
    assert (await cursor(setup)).gap_at is None
    for _ in range(3):
        await one(engine, submit(jobs=2))
    setup.clock.advance(3_600)
    await setup.store.tidy(1_000)
    await one(engine, submit())
    await fold_all(engine)
    assert "were deleted before their figures were added up" in caplog.text
    found = await cursor(setup)
    assert (found.gap_at, found.waiting) == (setup.clock(), (QueueCount("pro", "draw", "gpu", 10, 0),))
    # The newest commit is never deleted.
    sums = await added_up(setup)
    assert sum(counts.submitted for counts in sums.counts) == 6
    assert sum(counts.ready for counts in sums.counts) == 10
    assert not await engine.figures.fold()
    assert await cursor(setup) == found


async def test_figures_that_begin_on_a_database_in_use_begin_with_its_queue(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    await one(engine, submit(jobs=3))
    setup.clock.advance(3_600)
    await setup.store.tidy(1_000)
    await one(engine, submit())
    await setup.store.tidy(0)
    await fold_all(engine)
    found = await cursor(setup)
    assert (found.gap_at, found.waiting) == (None, (QueueCount("pro", "draw", "gpu", 4, 0),))


async def test_a_wrong_count_is_corrected_by_counting_also_while_others_submit(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CORRECT_S", 0.0)
    engine = await opened(await setup.engine())
    await one(engine, submit(jobs=3))
    await fold_all(engine)
    wrong = Figures((JobCounts("pro", "draw", "gpu", 5, 1), JobCounts("pro", "none", "gpu", 2)))
    before = await cursor(setup)
    await one(engine, c.FoldFigures(before.turn, before.number, 0, ((setup.clock(), wrong),)))
    # It was submitted after the cursor, and is part of the count.
    read = engine.store.read

    async def read_after_a_submit(query: Any) -> Any:
        if type(query).__name__ == "GetQueueCounts":
            await one(engine, submit(jobs=4))
        return await read(query)

    monkeypatch.setattr(engine.store, "read", read_after_a_submit)
    monkeypatch.setattr(engine.figures, "_next_correction_at", 0.0)
    await engine.figures.fold()
    assert [one for one in (await cursor(setup)).waiting if one.ready or one.parked] == [
        QueueCount("pro", "draw", "gpu", 3, 0)
    ]
    monkeypatch.setattr(engine.store, "read", read)
    await fold_all(engine)
    assert sum(counts.ready for counts in (await cursor(setup)).waiting) == 7


async def test_old_figures_are_deleted_in_passing(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRUNE_S", 0.0)
    monkeypatch.setattr(module, "PAGE", 1)
    engine = await opened(await setup.engine())
    for _ in range(3):
        await one(engine, submit())
        setup.clock.advance(61)
        await fold_all(engine)
    minutes = [key for key in (await setup.state()).of(Rollup) if key.startswith("minute")]
    assert len(minutes) == 3
    setup.clock.advance(POLICY.minute_figures_kept_ms / 1_000 - 60)
    for left in (2, 1, 1):
        await engine.figures.fold()
        kept = [key for key in (await setup.state()).of(Rollup) if key.startswith("minute")]
        assert sorted(kept) == sorted(minutes)[-left:]
    assert await added_up(setup) == as_the_state_says(await setup.state())


async def test_the_leader_adds_up_in_its_turn_and_deletes_no_commits_while_more_is_left(
    memory: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await memory.watched()
    engine = await opened(await memory.engine(store))
    behind = [True, True, False]
    tidied: list[int] = []

    async def fold() -> bool:
        tidied.append(store.tidied)
        return behind[len(tidied) - 1]

    monkeypatch.setattr(engine.figures, "fold", fold)
    monkeypatch.setattr(sweeper, "TIDY_S", 0.0)
    engine.sweeper = sweeper.Sweeper(engine, interval_s=0.001)
    engine.sweeper._is_settled = True
    engine.sweeper.start()
    await store.until(lambda: store.tidied >= 1)
    assert tidied == [0, 0, 0]


# Commits that appear in any order


class FiguredCommits(Commits):
    """Each commit has one credit of charge; what is added up is in a world of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world = World(Policy(plans={}))

    async def read(self, query: Any) -> Any:
        match query:
            case GetFigurePoint():
                await self._travel()
                cursor = self.world.state.of(FigureCursor).get(CURSOR)
                first = min(self.visible, default=0) if cursor is None else 1
                return FigurePoint(self.world.now, cursor, first, max(self.visible, default=0))
            case GetQueueCounts():
                return QueueCounts([], [])
            case ListFigures(after, last, limit, among):
                await self._travel()
                numbers = sorted(one for one in self.visible if (one in among if among else after < one <= last))
                return [CommitFigures(one, self.world.now, Figures(charged=1)) for one in numbers[: limit or None]]
            case ListOldRollups():
                return []
            case _:
                return await super().read(query)

    async def call(self, command: c.Command) -> Any:
        await self._travel()
        [outcome] = self.world.run(command)
        await self._travel()
        return outcome


@pytest.mark.parametrize("give_up_s", [NEVER_S, 0.0], ids=["waits", "gives up"])
@pytest.mark.parametrize("seed", range(12))
async def test_whatever_the_order_in_which_commits_appear_each_counts_once(
    monkeypatch: pytest.MonkeyPatch, seed: int, give_up_s: float
) -> None:
    monkeypatch.setattr(settled_commits, "GIVE_UP_S", give_up_s)
    monkeypatch.setattr(module, "PAGE", 7)
    commits = FiguredCommits(seed)
    engine = cast("Engine", SimpleNamespace(store=commits, call=commits.call, policy=POLICY))
    random = Random(seed)
    folders = [FigureFolder(engine) for _ in range(2)]
    while commits.has_open():
        at_once = [random.choice(folders).fold() for _ in range(random.randrange(3))]
        await asyncio.gather(*at_once)
        commits.step()
        if random.random() < 0.1:
            # One dies, and a new one knows nothing of what it has seen.
            folders[random.randrange(2)] = FigureFolder(engine)
    for _ in range(5):
        await folders[0].fold()
        await folders[1].fold()
    sums = [rollup.figures.charged for key, rollup in commits.world.state.of(Rollup).items() if "hour" in key]
    assert sum(sums) == len(commits.visible) > 100
    left_out = commits.world.state.of(FigureCursor)[CURSOR].left_out
    assert left_out == ()


async def test_on_postgresql_a_commit_that_appears_late_is_counted(
    postgresql: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened(await postgresql.engine())
    assert isinstance(postgresql.store, PostgresStore)
    for give_up_s, charged in ((NEVER_S, 0), (0.0, 5)):
        monkeypatch.setattr(settled_commits, "GIVE_UP_S", give_up_s)
        async with postgresql.store._writers.take() as connection:
            await connection.execute(f"BEGIN; {ADD_COMMIT}")
            await one(engine, submit())
            for _ in range(3):
                await engine.figures.fold()
            before = (await added_up(postgresql)).charged
            assert before == (0 if give_up_s else 5 + 7 + 5), charged
            await connection.execute("COMMIT")
        for _ in range(2):
            await engine.figures.fold()
        assert (await added_up(postgresql)).charged == before + (5 + 7 if give_up_s else 7)
    assert (await cursor(postgresql)).left_out == ()


def test_what_is_settled() -> None:
    commits = SettledCommits()
    assert commits.observe(Horizon(5, frozenset("a")), 0.0) == Settled(0, 0, frozenset("a"))
    # The others take numbers above what was seen.
    assert commits.observe(Horizon(8, frozenset("b")), 1.0) == Settled(5, 0, frozenset("b"))
    assert commits.observe(Horizon(9, frozenset("bc")), 60.9) == Settled(5, 0, frozenset("bc"))
    # After a minute nobody waits for it, but its numbers may still come.
    assert commits.observe(Horizon(9, frozenset("bc")), 61.0) == Settled(8, 8, frozenset("bc"))
    assert commits.observe(Horizon(9, frozenset("b")), 61.1) == Settled(9, 9, frozenset("b"))
    assert commits.observe(Horizon(12, frozenset()), 61.2) == Settled(12, 9, frozenset())
