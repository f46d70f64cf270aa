"""Live updates: hands the events of a job or an account to its followers as soon as they are committed.

All followers of a process share one tail of the commits, which runs only while there are followers. A follower first
reads the events it has not seen from the database; after that the tail hands it new ones. Where some may be missing
(the buffer was full, or the tail has just begun), the follower falls behind: it reads from the database again.

A job's events are numbered one by one, so a gap in the numbers tells its follower to read the job's history. An
account's events have no such numbers: their order is that of the commits. PostgreSQL numbers a commit before it becomes
visible, so a lower number may appear after a higher one. The tail therefore holds an account's events back until no
lower number can appear, usually until its next read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from ..core.states import FINAL
from ..futures import settle
from ..store.base import GetFirstSearched, GetHistory, GetHorizon, ListCommits, NumberedEvent, Reader, Store, StoreError
from ..store.commits import EVENTS_PER_COMMIT, commit_of, placed
from .wakeups import EVENTS, Wakeups

log = logging.getLogger("ficha.engine")

POLL_S = 1.0
"""Wake-ups are hints; without any, the tail reads this often."""
PACE_S = 0.05
"""The shortest pause between two reads of the tail."""
COST_SHARE: Final = 0.5
"""The share of the time that reads may take: a slow read is followed by a longer pause."""
LONGEST_PAUSE_S: Final = 0.25
"""The longest such pause, so short that people do not notice it: in a busy process a read is slow because of other
work."""
BUFFER = 256
"""How many events may wait for a follower; beyond it, the follower reads them from the database."""
PAGE = 100
"""How many commits are read at once."""
GIVE_UP_S = 60.0
"""How long an account's events are held back for a transaction that may still fill a gap. Ficha's own transactions time
out sooner. A caller's own may last longer; present followers of the account do not get the events it then adds."""


class Closed(Exception):
    """The process is shutting down: resume with another process, after the cursor."""


class EventTail:
    """The followers of this process, and their tail."""

    def __init__(self, store: Store, wakeups: Wakeups) -> None:
        self.store = store
        self.is_closed = False
        self.settled = 0
        """No further commit can appear up to this number."""
        self._wakeups = wakeups
        self._of_job: dict[str, set[Follower]] = {}
        self._of_account: dict[str, set[Follower]] = {}
        self._stirred: set[Follower] = set()
        """Followers with events in their buffer, or that are behind."""
        self._task: asyncio.Task[None] | None = None
        self._last: int | None = None
        self._writers: dict[str, _Writer] = {}

    def follow(self, *, job_id: str | None = None, account_id: str | None = None, after: int = 0) -> Follower:
        """Follows one job, or all jobs of one account, after this number of its stream; use it as `async with`."""
        assert (job_id is None) != (account_id is None), "a follower follows one job or one account"
        return Follower(self, job_id, account_id, after)

    async def end_of(self, job_id: str, timeout_s: float) -> bool:
        """Waits until the job's events say that it has ended; False if the time is up first.

        Raises Closed and StoreError, as `Follower.next` does.
        """
        ends_at = time.monotonic() + timeout_s
        async with self.follow(job_id=job_id) as follower:
            while (left_s := ends_at - time.monotonic()) > 0:
                found = await follower.next(left_s)
                if any(numbered.event.kind in FINAL or numbered.event.kind == "reused" for numbered in found):
                    return True
        return False

    def close(self) -> None:
        """Ends all following: `Follower.next` then raises Closed. A second call does nothing."""
        self.is_closed = True
        for follower in self._followers():
            follower.stir()

    async def stop(self) -> None:
        self.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def add(self, follower: Follower) -> None:
        names, name = self._names(follower)
        names.setdefault(name, set()).add(follower)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="ficha tail")

    def remove(self, follower: Follower) -> None:
        names, name = self._names(follower)
        names[name].remove(follower)
        if not names[name]:
            del names[name]
        self._stirred.discard(follower)

    def _names(self, follower: Follower) -> tuple[dict[str, set[Follower]], str]:
        if follower.job_id is not None:
            return self._of_job, follower.job_id
        assert follower.account_id is not None
        return self._of_account, follower.account_id

    def _followers(self) -> list[Follower]:
        return [one for names in (self._of_job, self._of_account) for fellows in names.values() for one in fellows]

    # The tail

    async def _run(self) -> None:
        self._last, self._writers = None, {}
        wait_s, is_away = 0.0, False
        while self._of_job or self._of_account:
            heard = self._wakeups.heard((EVENTS,))
            began_at, settled = time.monotonic(), self.settled
            try:
                await self._look()
                is_away = False
            except StoreError as error:
                # Nothing is lost: the next read begins where the last complete one ended.
                log.log(logging.DEBUG if is_away else logging.WARNING, "new events could not be read: %s", error)
                is_away = True
            except Exception:
                # The tail must not end, or its followers would wait for ever.
                log.exception("new events could not be handed over")
            took_s = time.monotonic() - began_at
            await asyncio.sleep(max(PACE_S, min(LONGEST_PAUSE_S, took_s / COST_SHARE)))
            # While events are held back, the tail reads again soon, then less and less often until some are released.
            wait_s = 0.0 if self.settled > settled else min(POLL_S, 2 * wait_s + PACE_S)
            is_held_back = any(follower.holds_back() for follower in self._stirred)
            await self._wakeups.wait((EVENTS,), wait_s if is_held_back else POLL_S, heard)

    async def _look(self) -> None:
        """Hands over all commits that became visible since the last read: those above the last horizon, and those below
        it from writers that have ended since."""
        horizon = await self.store.read(GetHorizon())
        now = time.monotonic()
        gone = [writer for name, writer in self._writers.items() if name not in horizon.writers]
        if self._last is None or any(writer.above is None or writer.is_given_up(now) for writer in gone):
            # How far down to read is not known, so every follower reads for itself.
            for follower in self._followers():
                follower.fall_behind()
                self._stirred.add(follower)
        if self._last is not None:
            known = [writer.above for writer in gone if writer.above is not None]
            await self._read(max(self.settled, min(known, default=self._last)), horizon.last)
        self._writers = {name: self._writers.get(name) or _Writer(self._last, now) for name in horizon.writers}
        self._last = horizon.last
        under_way = [writer for writer in self._writers.values() if not writer.is_given_up(now)]
        self.settled = max(self.settled, min((writer.above or 0 for writer in under_way), default=horizon.last))
        self._stir()

    async def _read(self, after: int, last: int) -> None:
        while after < last:
            page = await self.store.read(ListCommits(after=after, limit=PAGE))
            for commit in page:
                for numbered in placed(commit):
                    self._hand_over(numbered)
            if len(page) < PAGE:
                return
            after = page[-1].number

    def _hand_over(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        if fellows := self._of_job.get(event.job_id):
            self._offer(fellows, NumberedEvent(event.number, event))
        if fellows := self._of_account.get(event.account_id):
            self._offer(fellows, numbered)

    def _offer(self, fellows: set[Follower], numbered: NumberedEvent) -> None:
        for follower in fellows:
            follower.offer(numbered)
            self._stirred.add(follower)

    def _stir(self) -> None:
        """Wakes the followers that have events to take or to read."""
        for follower in tuple(self._stirred):
            if follower.has_more():
                follower.stir()
            elif not follower.holds_back():
                self._stirred.remove(follower)


class _Writer(Struct, frozen=True):
    """A transaction under way that may have taken commit numbers, all above `above`; None if their range is unknown."""

    above: int | None
    seen_at: float

    def is_given_up(self, now: float) -> bool:
        return now - self.seen_at >= GIVE_UP_S


class Follower:
    """Follows a job or an account. For one task at a time."""

    __slots__ = (
        *("_buffer", "_is_behind", "_is_nudged", "_is_placed", "_is_stirred", "_live", "_settled", "_waiter"),
        *("account_id", "cursor", "has_missed", "job_id"),
    )

    def __init__(self, live: EventTail, job_id: str | None, account_id: str | None, after: int) -> None:
        self.job_id = job_id
        self.account_id = account_id
        self.cursor = after
        """The number of the last event that was handed out: where to resume."""
        self.has_missed = False
        """Whether some events after the initial cursor are too old: the search of an account's events begins later."""
        self._live = live
        self._is_placed = job_id is not None
        """Whether the cursor is known to lie in the range that is searched."""
        self._buffer: dict[int, NumberedEvent] = {}
        self._is_behind = True
        """Whether the follower must read from the database before the tail can hand it events."""
        self._settled = -1
        """Up to which number commits were settled when the follower last read."""
        self._is_stirred = False
        self._is_nudged = False
        self._waiter: asyncio.Future[bool] | None = None

    async def __aenter__(self) -> Self:
        self._live.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.remove(self)

    async def next(self, timeout_s: float) -> list[NumberedEvent]:
        """Returns the events after the cursor, in order, each once and none left out. Returns an empty list when the
        time is up, or on a nudge.

        Raises Closed when following ends, and StoreError when the database cannot be read; then call it again.
        """
        ends_at = time.monotonic() + timeout_s
        while True:
            self._is_stirred = False
            if self._live.is_closed:
                raise Closed("this process is shutting down; follow on with another one")
            found = await self._read() if self._is_behind else self._take()
            if found:
                self.cursor = found[-1].number
                return found
            if self._is_nudged or not await self._wait(ends_at - time.monotonic()):
                self._is_nudged = False
                return []

    def nudge(self) -> None:
        """Makes a waiting `next` return at once, with an empty list if there are no events."""
        self._is_nudged = True
        self.stir()

    async def _read(self) -> list[NumberedEvent]:
        """Reads a page from the database; after the last page, the tail takes over."""
        settled = self._settled = self._live.settled
        # From here on the tail hands over what is new, so that nothing is missed between the page and the tail.
        self._is_behind, self._buffer = False, {}
        try:
            await self.start()
            page, is_last = await self._page()
        except BaseException:
            self.fall_behind()
            raise
        if not is_last:
            self.fall_behind()
        if self.job_id is not None:
            return page
        if self._is_behind:
            return [numbered for numbered in page if commit_of(numbered.number) <= settled]
        self._buffer |= {numbered.number: numbered for numbered in page}
        return self._take()

    async def start(self) -> None:
        """Finds, once, where the search of an account's events begins, and whether that is after the cursor."""
        if not self._is_placed:
            after, self.cursor = self.cursor, await first_place(self._live.store, self.cursor)
            self.has_missed, self._is_placed = after != self.cursor, True

    async def _page(self) -> tuple[list[NumberedEvent], bool]:
        store = self._live.store
        if self.job_id is not None:
            found = await job_events(store, self.job_id, self.cursor, BUFFER)
            return found, len(found) < BUFFER
        assert self.account_id is not None
        return await account_events(store, self.account_id, self.cursor, BUFFER)

    def _take(self) -> list[NumberedEvent]:
        """Takes from the buffer what may be handed out."""
        found = [self._buffer.pop(number) for number in sorted(self._buffer) if self._may_go(number)]
        found = [numbered for numbered in found if numbered.number > self.cursor]
        if self.job_id is not None and found and found[-1].number != self.cursor + len(found):
            # The tail has not seen one of the events; the job's history has it.
            self.fall_behind()
            return []
        return found

    def _may_go(self, number: int) -> bool:
        return self.job_id is not None or commit_of(number) <= self._live.settled

    async def _wait(self, timeout_s: float) -> bool:
        """Waits until `stir` is called; False if the time is up first."""
        if self._is_stirred or timeout_s <= 0:
            return self._is_stirred
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_later(timeout_s, settle, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def fall_behind(self) -> None:
        """Drops the buffer: the next events must be read from the database, which has all that is committed by now."""
        self._is_behind, self._buffer, self._settled = True, {}, -1

    # For the tail

    def offer(self, numbered: NumberedEvent) -> None:
        if self._is_behind or numbered.number <= self.cursor:
            return
        self._buffer[numbered.number] = numbered
        if len(self._buffer) > BUFFER:
            self.fall_behind()

    def has_more(self) -> bool:
        """Returns whether `next` may find events."""
        if self._buffer and self._may_go(min(self._buffer)):
            return True
        return self._is_behind and (self.job_id is not None or self._live.settled > self._settled)

    def holds_back(self) -> bool:
        """Returns whether some events were not handed out yet."""
        return self._is_behind or bool(self._buffer)

    def stir(self) -> None:
        self._is_stirred = True
        if self._waiter is not None:
            settle(self._waiter, True)


async def job_events(reader: Reader, job_id: str, after: int, limit: int) -> list[NumberedEvent]:
    """Returns a page of a job's stream: its history."""
    found = await reader.read(GetHistory(job_id, after, limit))
    return [NumberedEvent(event.number, event) for event in found]


async def account_events(
    reader: Reader, account_id: str | None, after: int, limit: int
) -> tuple[list[NumberedEvent], bool]:
    """Returns a page of an account's stream, or of all accounts', and whether it is the last one by now."""
    found: list[NumberedEvent] = []
    # The commit of the cursor itself may have more events after it.
    number, page_size = commit_of(after) - 1, PAGE
    while len(found) <= limit:
        page = await reader.read(ListCommits(number, page_size, account_id))
        for commit in page:
            mine = (one for one in placed(commit) if account_id in (None, one.event.account_id))
            found += [one for one in mine if one.number > after]
        if len(page) < page_size:
            return found[:limit], len(found) <= limit
        number = page[-1].number
    return found[:limit], False


async def first_place(reader: Reader, after: int) -> int:
    """Returns the number after which to read an account's stream: `after`, or the start of the search if later."""
    first = await reader.read(GetFirstSearched())
    return after if first <= 1 or commit_of(after) >= first else first * EVENTS_PER_COMMIT - 1
