"""Adds up the figures of commits by minute and by hour.

Every commit carries its own figures (`core/figures.py`). The leader of the sweepers sums up those of settled commits
and sends one command, whose rule refuses it if another process was faster: each commit counts exactly once, whoever
adds it up and whatever process dies. Work per turn is bounded; the rest is done in the next turns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ..core.commands import CorrectQueue, FoldFigures, ForgetRollups
from ..core.figures import CURSOR, MOST_LEFT_OUT, STEPS, begin_of, kept_us, total
from ..core.measures import all_measures
from ..core.outcomes import Folded
from ..core.policy import SECOND
from ..core.records import FigureCursor, Figures, JobCounts, QueueCount
from ..store.base import (
    Commit,
    CommitFigures,
    FigurePoint,
    GetFigurePoint,
    GetHorizon,
    GetQueueCounts,
    ListCommits,
    ListFigures,
    ListOldRollups,
)
from .settled_commits import Settled, SettledCommits

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("ficha.engine")

FOLD_S: Final = 5.0
"""The pause between two turns that add up figures."""
LONGEST_FOLD_S: Final = 30.0
"""The longest pause: while nothing happens, each pause is twice the one before."""
PAGE: Final = 500
"""How many commits one command adds up, at most."""
PAGES: Final = 20
"""How many commands one turn sends, at most."""
SECOND_LOOK_S: Final = 0.02
"""After how long the horizon is read again where transactions are under way: most have ended by then."""
IDLE: Final = 300 * SECOND
"""How often the cursor is moved past commits that have no figures."""
CORRECT_S: Final = 3_600.0
"""How often the waiting jobs are counted one by one."""
CORRECT_SHARE: Final = 0.001
"""The share of the time that counting may take: a slow count is repeated less often."""
CORRECTED_JOBS: Final = 100_000
"""Where more jobs wait than this, they are not counted, except after a gap."""
AHEAD: Final = 5_000
"""How many commits beyond the cursor a count reads; with so many or more, it corrects nothing."""
PRUNE_S: Final = 600.0
"""How often old rollups are looked for."""


class FigureFolder:
    """Adds up the figures of commits. One process at a time should do it; if several do, nothing counts twice."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._settled = SettledCommits()
        self.pause_s = FOLD_S
        """How long to wait before the next turn."""
        self._looked_at = 0
        """Up to this number, commits after the cursor have no figures."""
        self._suspects: dict[int, frozenset[str]] = {}
        """By number that was left out, the transactions that may still use it."""
        self._next_correction_at = time.monotonic() + CORRECT_S
        self._next_pruning_at = 0.0

    async def fold(self) -> bool:
        """Adds up the settled commits; returns whether there are more."""
        point = await self._engine.store.read(GetFigurePoint())
        cursor = point.cursor
        is_behind = False
        if point.last <= self._looked_at and not (cursor is not None and cursor.left_out):
            self.pause_s = min(LONGEST_FOLD_S, 2 * self.pause_s)
        else:
            self.pause_s = FOLD_S
            is_behind, cursor = await self._fold(point, await self._look())
        if not is_behind and cursor is not None:
            await self._correct(cursor)
        await self._prune(point.now)
        return is_behind

    async def _look(self) -> Settled:
        horizon = await self._engine.store.read(GetHorizon())
        settled = self._settled.observe(horizon, time.monotonic())
        if settled.number < horizon.last:
            await asyncio.sleep(SECOND_LOOK_S)
            horizon = await self._engine.store.read(GetHorizon())
            settled = self._settled.observe(horizon, time.monotonic())
        return settled

    async def _fold(self, point: FigurePoint, settled: Settled) -> tuple[bool, FigureCursor | None]:
        """Returns whether more is left, and the cursor now; None if another process moved it."""
        cursor = point.cursor or FigureCursor(CURSOR)
        is_new = point.cursor is None and point.first > 1
        has_gap = point.cursor is not None and point.first > cursor.number + 1
        if has_gap:
            log.warning("commits up to %d were deleted before their figures were added up", point.first - 1)
        if has_gap or is_new:
            self._next_correction_at = 0.0
        after = max(cursor.number, self._looked_at, point.first - 1 if has_gap else 0)
        came = await self._came(cursor)
        gone = self._gone(cursor.left_out, came, settled.writers)
        for _ in range(PAGES):
            # In this order: a commit that appears in between is then on the page.
            missing = await self._holes(after, min(settled.number, settled.holes_to))
            page = await self._page(after, settled.number)
            is_last = len(page) < PAGE
            number = max(after, page[-1].number if not is_last else settled.number)
            counted = {one.number for one in page}
            holes = tuple(one for one in missing if one <= number and one not in counted)
            is_idle_long = number - cursor.number > 1 and point.now - cursor.folded_at >= IDLE
            if not (page or gone or holes or has_gap or is_idle_long):
                self._looked_at = number
                return False, cursor
            command = FoldFigures(
                cursor.turn,
                number,
                point.now if is_last else page[-1].at,
                figures=_by_minute([*came, *page]),
                came=gone,
                left_out=holes,
                has_gap=has_gap,
                measures=all_measures(one.figures.measures for one in (*came, *page)),
            )
            outcome = await self._engine.call(command)
            if not isinstance(outcome, Folded) or not outcome.changed:
                return True, None
            cursor, after = outcome.cursor, number
            self._looked_at = number
            came, gone, has_gap = [], (), False
            if is_last:
                return False, cursor
        return True, cursor

    async def _page(self, after: int, last: int) -> list[CommitFigures]:
        return await self._engine.store.read(ListFigures(after, last, PAGE)) if after < last else []

    async def _came(self, cursor: FigureCursor) -> list[CommitFigures]:
        if not cursor.left_out:
            return []
        return await self._engine.store.read(ListFigures(among=cursor.left_out))

    def _gone(self, left_out: tuple[int, ...], came: list[CommitFigures], writers: frozenset[str]) -> tuple[int, ...]:
        """Returns the left-out numbers that are done with: their commits came, or nobody can use them any more. The
        latter is so when all transactions under way when this process first saw the number left out have ended before
        it was looked for just now."""
        self._suspects = {number: self._suspects.get(number, writers) & writers for number in left_out}
        found = {one.number for one in came}
        return tuple(number for number in left_out if number in found or not self._suspects[number])

    async def _holes(self, after: int, last: int) -> tuple[int, ...]:
        """Returns the numbers that no commit has so far."""
        if after >= last:
            return ()
        found: set[int] = set()
        page: list[Commit] | None = None
        while page is None or (len(page) == PAGE and page[-1].number < last):
            page = await self._engine.store.read(ListCommits(after=max(found, default=after), limit=PAGE))
            found.update(commit.number for commit in page)
        return tuple(number for number in range(after + 1, last + 1) if number not in found)[-MOST_LEFT_OUT:]

    async def _correct(self, cursor: FigureCursor) -> None:
        """Counts the waiting jobs one by one, so that an error (after a gap, or from rows changed by hand) does not
        last. The changes of commits beyond the cursor are subtracted from the count."""
        if time.monotonic() < self._next_correction_at:
            return
        is_urgent = self._next_correction_at == 0.0
        began_at = time.monotonic()
        if is_urgent or sum(one.ready + one.parked for one in cursor.waiting) <= CORRECTED_JOBS:
            point = await self._engine.store.read(GetFigurePoint())
            found = await self._engine.store.read(GetQueueCounts(cursor.number, cursor.left_out, AHEAD))
            command = CorrectQueue(cursor.turn, point.now, _before(found.counts, found.ahead))
            outcome = await self._engine.call(command) if len(found.ahead) < AHEAD else None
            if isinstance(outcome, Folded) and outcome.changed:
                log.warning("the figures of waiting jobs were off, and were corrected")
        took_s = time.monotonic() - began_at
        self._next_correction_at = time.monotonic() + max(CORRECT_S, took_s / CORRECT_SHARE)

    async def _prune(self, now: int) -> None:
        if time.monotonic() < self._next_pruning_at:
            return
        self._next_pruning_at = time.monotonic() + PRUNE_S
        policy = self._engine.policy
        for level in STEPS:
            keys = await self._engine.store.read(ListOldRollups(level, now - kept_us(policy, level), PAGE))
            if keys:
                await self._engine.call(ForgetRollups(tuple(keys)))
            if len(keys) == PAGE:
                self._next_pruning_at = 0.0


def _by_minute(commits: list[CommitFigures]) -> tuple[tuple[int, Figures], ...]:
    found: defaultdict[int, list[Figures]] = defaultdict(list)
    for commit in commits:
        found[begin_of("minute", commit.at)].append(commit.figures)
    sums = ((begins_at, total(parts)) for begins_at, parts in sorted(found.items()))
    # A minute whose commits have only measures has no figures.
    return tuple((begins_at, figures) for begins_at, figures in sums if figures != Figures())


def _before(counts: list[QueueCount], ahead: list[CommitFigures]) -> tuple[QueueCount, ...]:
    """Returns the counts as they were before these commits."""
    counted = Figures(tuple(JobCounts(one.plan, one.tool, one.pool, -one.ready, -one.parked) for one in counts))
    found = total([counted, *(commit.figures for commit in ahead)])
    return tuple(
        QueueCount(one.plan, one.tool, one.pool, -one.ready, -one.parked)
        for one in found.counts
        if one.ready or one.parked
    )
