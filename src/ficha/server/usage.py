"""What each caller has under way in this process: requests, live streams, uploads, and bytes of bodies and of large
answers.

An account is counted as one, whichever of its keys, JWTs and job tokens a request came with. A key for all accounts is
counted by itself, with limits of its own: it acts for many accounts. Each process counts for itself.

Only a few of an account's requests are worked on at a time; the others wait for their turn. So another account's
request never waits for more than those few, however many one account sends at once. An account whose requests keep the
event loop busy for long, such as with large pages, rests after each and then has one turn at a time.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Literal
from weakref import WeakValueDictionary

from ..core.outcomes import Refusal
from ..errors import Refused
from .identity.callers import Caller
from .settings import Settings

What = Literal["requests", "streams", "uploads", "bytes"]

RETRY_AFTER_S: Final = 1.0
LONG_STEP_S: Final = 0.005
"""After a step of a request that keeps the event loop for at least this long, its account rests."""
RESTS: Final = 9
"""How many times as long as the step the rest is: one account's long steps get a tenth of the time at most."""
ONE_BY_ONE_S: Final = 1.0
"""How long after its rest an account's requests are worked on one at a time."""
_WORDS: Final[dict[What, str]] = {
    "requests": "requests under way",
    "streams": "live streams",
    "uploads": "uploads under way",
    "bytes": "bytes of bodies and answers under way",
}


class Turns:
    """The turns of one account's requests."""

    def __init__(self, at_a_time: int) -> None:
        self._free = asyncio.Semaphore(at_a_time)
        self._alone = asyncio.Lock()
        self._rests_until = 0.0

    async def take(self) -> bool:
        """Waits for a turn. Returns whether it is one of those that the account has one at a time."""
        await self._free.acquire()
        try:
            if not self._alone.locked() and time.monotonic() >= self._rests_until + ONE_BY_ONE_S:
                return False
            await self._alone.acquire()
        except BaseException:
            self._free.release()
            raise
        try:
            await asyncio.sleep(max(0.0, self._rests_until - time.monotonic()))
        except BaseException:
            self.leave(is_alone=True)
            raise
        return True

    def leave(self, *, is_alone: bool) -> None:
        if is_alone:
            self._alone.release()
        self._free.release()

    def spent(self, seconds: float) -> None:
        """Lets the account rest, because a request kept the event loop for that long."""
        now = time.monotonic()
        self._rests_until = max(now, self._rests_until) + RESTS * seconds
        asyncio.get_running_loop().call_later(self._rests_until + ONE_BY_ONE_S - now, self._is_rested)

    def _is_rested(self) -> None:
        """Does nothing. Its pending call keeps the account's turns in memory, also while the account has no request."""


class UnderWay:
    """The counts of one process, and their limits."""

    def __init__(self, settings: Settings) -> None:
        self._counts: dict[tuple[str, What], int] = {}
        self._of_accounts: Final[dict[What, int]] = {
            "requests": settings.account_requests,
            "streams": settings.account_streams,
            "uploads": settings.account_uploads,
            "bytes": settings.account_bytes,
        }
        self._of_operators: Final[dict[What, int]] = {
            "requests": settings.operator_requests,
            "streams": settings.operator_streams,
            "uploads": settings.operator_uploads,
            "bytes": settings.operator_bytes,
        }
        self._turns: WeakValueDictionary[str, Turns] = WeakValueDictionary()
        self._at_a_time = settings.account_turns

    def turns(self, caller: Caller) -> Turns | None:
        """The turns that the requests of this account take; a key for all accounts waits for none."""
        if caller.account is None:
            return None
        found = self._turns.get(caller.account)
        if found is None:
            found = self._turns[caller.account] = Turns(self._at_a_time)
        return found

    def count(self, who: str, what: What) -> int:
        return self._counts.get((who, what), 0)

    def limit(self, caller: Caller, what: What) -> int:
        return (self._of_operators if caller.account is None else self._of_accounts)[what]

    def change(self, who: str, what: What, by: int) -> None:
        counted = self.count(who, what) + by
        assert counted >= 0, f"{who} gave back more {what} than it took"
        if counted:
            self._counts[who, what] = counted
        else:
            # Otherwise the dictionary would grow with every account that ever called.
            self._counts.pop((who, what), None)

    def is_empty(self) -> bool:
        return not self._counts


class Usage:
    """What one request takes of its caller's share. Nothing is counted before the caller is known."""

    def __init__(self, under_way: UnderWay) -> None:
        self._under_way = under_way
        self._caller: Caller | None = None
        self._who = ""
        self._taken: dict[What, int] = {}
        self._turns: Turns | None = None
        """The turns of its account; None for a caller who needs none."""
        self._has_turn = self._is_alone = False

    async def take_turn(self) -> None:
        """Waits until the request may be worked on."""
        if self._turns is not None and not self._has_turn:
            self._is_alone = await self._turns.take()
            self._has_turn = True

    def leave_turn(self) -> bool:
        """Lets the account's next request be worked on: this one is answered, or waits for something. False if it had
        no turn."""
        if self._turns is None or not self._has_turn:
            return False
        self._has_turn = False
        self._turns.leave(is_alone=self._is_alone)
        return True

    def spent(self, seconds: float) -> None:
        """Counts that the request kept the event loop for that long."""
        if seconds >= LONG_STEP_S and self._turns is not None:
            self._turns.spent(seconds)

    def begin(self, caller: Caller) -> None:
        """Counts the request as its caller's; refused if the caller has too many under way."""
        self._caller = caller
        self._who = f"key {caller.key_id}" if caller.account is None else f"account {caller.account}"
        self._turns = self._under_way.turns(caller)
        self.take("requests")

    def become_stream(self) -> None:
        """Counts the request as a live stream from now on. It keeps its turn until it begins to be sent."""
        self.take("streams")
        self.give_back("requests", self._taken.get("requests", 0))

    def take(self, what: What, amount: int = 1) -> None:
        """Counts more; refused beyond the limit, unless the caller has nothing else: a single one is bounded
        elsewhere."""
        if self._caller is None:
            return
        present, most = self._under_way.count(self._who, what), self._under_way.limit(self._caller, what)
        if present and present + amount > most:
            whose = "this key" if self._caller.account is None else "this account"
            words = f"{whose} may have {most} {_WORDS[what]} in one server process; nothing was changed. "
            raise Refused.of(
                Refusal("RATE_LIMITED", words + "Wait until some have ended.", retry_after_s=RETRY_AFTER_S)
            )
        self.add(what, amount)

    def add(self, what: What, amount: int) -> None:
        """The same for what cannot be refused any more."""
        if self._caller is not None:
            self._under_way.change(self._who, what, amount)
            self._taken[what] = self._taken.get(what, 0) + amount

    def give_back(self, what: What, amount: int) -> None:
        if self._caller is not None:
            self._under_way.change(self._who, what, -amount)
            self._taken[what] -= amount

    def end(self) -> None:
        """Gives back all that the request has taken."""
        self.leave_turn()
        for what, amount in self._taken.items():
            self._under_way.change(self._who, what, -amount)
        self._taken = {}
