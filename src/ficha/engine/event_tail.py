"""Live: what happens to jobs, told to whoever follows one of them or an account, as soon as it is committed.

All followers of a process share one tail of the events, which runs only while there are any. A follower first reads
from the database by itself what it has not seen; from then on the tail hands it what is new. Where that is not certain,
after a full buffer or when the tail begins, it falls behind, and catches up by reading for itself again.

PostgreSQL gives events their numbers before the commit, so a lower number may show up after a higher one. What the tail
sees is therefore held back until nothing lower can come any more, which is by its next look as a rule. Of one job the
database itself always shows what belongs together, since whoever writes about a job holds it meanwhile: where holding
back takes too long, those who follow jobs read for themselves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from ..store.base import GetHorizon, ListEvents, NumberedEvent, Store, StoreError
from .wakeups import EVENTS, Wakeups

log = logging.getLogger("ficha.engine")

POLL_S = 1.0
"""Wake-ups are hints; the tail also looks by itself this often."""
PACE_S = 0.05
"""The tail looks no more often than this."""
COST_SHARE: Final = 0.5
LONGEST_PAUSE_S: Final = 0.25
"""The part of the time that looking may take: a look that was slow is followed by a longer pause, but not by so long a
one that people notice. A busy process is slow to look because of all else that it does."""
BUFFER = 256
"""Events that wait for a follower, at most; one that lets more gather reads them from the database."""
PAGE = 1_000
"""Events that the tail takes at once."""
HOLD_S = 1.0
"""How long a job's events are held back."""
GIVE_UP_S = 60.0
"""How long an account's events wait for a transaction that may still fill a gap. Ficha's own end sooner, by their
time-outs. A caller's own may last longer; what it then adds, those who follow the account already are not told."""


class Closed(Exception):
    """The process is shutting down: follow on with another one, after the cursor."""


class EventTail:
    """The followers of this process, and their tail."""

    def __init__(self, store: Store, wakeups: Wakeups) -> None:
        self.store = store
        self.is_closed = False
        self.settled = 0
        """Nothing new appears up to this number."""
        self._wakeups = wakeups
        self._of_job: dict[str, set[Follower]] = {}
        self._of_account: dict[str, set[Follower]] = {}
        self._stirred: set[Follower] = set()
        """Those who may have something to come, or be behind."""
        self._task: asyncio.Task[None] | None = None
        self._last: int | None = None
        self._writers: dict[str, _Writer] = {}

    def follow(self, *, job_id: str | None = None, account_id: str | None = None, after: int = 0) -> Follower:
        """Follows one job, or all jobs of one account, from after an event number on; use it as `async with`."""
        assert (job_id is None) != (account_id is None), "a follower follows one job or one account"
        return Follower(self, job_id, account_id, after)

    def close(self) -> None:
        """Ends all following: whoever asks for the next events is told so. A second call does nothing."""
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
                # Nothing is lost by it: the next look begins where the last one ended that came to its end.
                log.log(logging.DEBUG if is_away else logging.WARNING, "new events could not be read: %s", error)
                is_away = True
            except Exception:
                # It goes on in any case: whoever follows would wait for ever.
                log.exception("new events could not be handed over")
            took_s = time.monotonic() - began_at
            await asyncio.sleep(max(PACE_S, min(LONGEST_PAUSE_S, took_s / COST_SHARE)))
            # What is held back is looked at again soon, and ever less often while nothing comes of it.
            wait_s = 0.0 if self.settled > settled else min(POLL_S, 2 * wait_s + PACE_S)
            is_held_back = any(follower.holds_back() for follower in self._stirred)
            await self._wakeups.wait((EVENTS,), wait_s if is_held_back else POLL_S, heard)

    async def _look(self) -> None:
        """Hands over all that became visible since the last look: what lies above the last horizon, and whatever those
        writers left below it that are gone since then."""
        horizon = await self.store.read(GetHorizon())
        now = time.monotonic()
        gone = [writer for name, writer in self._writers.items() if name not in horizon.writers]
        if self._last is None or any(writer.above is None or writer.is_given_up(now) for writer in gone):
            # How far down to look is not known: everybody looks for what is theirs.
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
        self._stir(now)

    async def _read(self, after: int, last: int) -> None:
        while after < last:
            # The names as they are now: whoever comes later reads by itself all that this horizon has seen.
            jobs, accounts = tuple(self._of_job), tuple(self._of_account)
            if last - after <= len(jobs) + len(accounts):
                # Fewer than there are names: it is less work to take them all.
                jobs = accounts = ()
            page = await self.store.read(ListEvents(after=after, limit=PAGE, jobs=jobs, accounts=accounts))
            for numbered in page:
                self._hand_over(numbered)
            if len(page) < PAGE:
                return
            after = page[-1].number

    def _hand_over(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        for fellows in (self._of_job.get(event.job_id), self._of_account.get(event.account_id)):
            for follower in fellows or ():
                follower.offer(numbered)
                self._stirred.add(follower)

    def _stir(self, now: float) -> None:
        """Wakes those for whom there is something by now."""
        for follower in tuple(self._stirred):
            if follower.has_more(now):
                follower.stir()
            elif not follower.holds_back():
                self._stirred.remove(follower)


class _Writer(Struct, frozen=True):
    """A transaction under way that may have taken numbers, all of them above `above`; None if that is not known."""

    above: int | None
    seen_at: float

    def is_given_up(self, now: float) -> bool:
        return now - self.seen_at >= GIVE_UP_S


class Follower:
    """Somebody who follows a job or an account. For one task at a time."""

    __slots__ = (
        *("_buffer", "_held_at", "_is_behind", "_is_nudged", "_is_stirred", "_live", "_settled", "_waiter"),
        *("account_id", "cursor", "job_id"),
    )

    def __init__(self, live: EventTail, job_id: str | None, account_id: str | None, after: int) -> None:
        self.job_id = job_id
        self.account_id = account_id
        self.cursor = after
        """The number of the last event that was handed out: what to resume after."""
        self._live = live
        self._buffer: dict[int, NumberedEvent] = {}
        self._is_behind = True
        """Whether it has to read from the database before it can be handed anything."""
        self._settled = -1
        """How far numbers were settled when it last read."""
        self._held_at = 0.0
        """Since when the buffer has held something."""
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
        """The events after the cursor, in order, none twice and none left out; none when the time is up, or on a nudge.

        Raises Closed when following ends, and StoreError when the database cannot be read; then ask again.
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
        """Lets whoever waits for the next events return, with none if there are none."""
        self._is_nudged = True
        self.stir()

    async def _read(self) -> list[NumberedEvent]:
        """What the database has; after a last page, the tail goes on from there."""
        settled = self._settled = self._live.settled
        # From here on the tail hands over what is new, so that nothing is missed between the page and the tail.
        self._is_behind, self._buffer = False, {}
        try:
            page = await self._live.store.read(
                ListEvents(job_id=self.job_id, account_id=self.account_id, after=self.cursor, limit=BUFFER)
            )
        except BaseException:
            self.fall_behind()
            raise
        if len(page) == BUFFER:
            self.fall_behind()
        if self.job_id is not None:
            return page
        if self._is_behind:
            return [numbered for numbered in page if numbered.number <= settled]
        self._buffer |= {numbered.number: numbered for numbered in page}
        return self._take()

    def _take(self) -> list[NumberedEvent]:
        """What waits here and may be handed out."""
        ready = sorted(number for number in self._buffer if number <= self._live.settled)
        found = [self._buffer.pop(number) for number in ready]
        return [numbered for numbered in found if numbered.number > self.cursor]

    async def _wait(self, timeout_s: float) -> bool:
        """Until it is stirred; False if the time is up first."""
        if self._is_stirred or timeout_s <= 0:
            return self._is_stirred
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_later(timeout_s, _settle, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def fall_behind(self) -> None:
        """From now on only the database knows what comes next: whatever is committed by now is found there."""
        self._is_behind, self._buffer, self._settled = True, {}, -1

    # For the tail

    def offer(self, numbered: NumberedEvent) -> None:
        if self._is_behind or numbered.number <= self.cursor:
            return
        if not self._buffer:
            self._held_at = time.monotonic()
        self._buffer[numbered.number] = numbered
        if len(self._buffer) > BUFFER:
            self.fall_behind()

    def has_more(self, now: float) -> bool:
        """Whether asking for more may give something. Falls behind if it was held back from that for too long."""
        settled = self._live.settled
        if self._buffer and min(self._buffer) <= settled:
            return True
        if self._buffer and self.job_id is not None and now - self._held_at >= HOLD_S:
            self.fall_behind()
        return self._is_behind and (self.job_id is not None or settled > self._settled)

    def holds_back(self) -> bool:
        """Whether there is something that was not handed out yet."""
        return self._is_behind or bool(self._buffer)

    def stir(self) -> None:
        self._is_stirred = True
        if self._waiter is not None:
            _settle(self._waiter, True)


def _settle(waiter: asyncio.Future[bool], is_stirred: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_stirred)
