"""What each caller has under way in this process: requests, live streams, and bytes of bodies and of large answers.

An account is counted as one, whichever of its keys, JWTs and job tokens a request came with. A service or admin key is
counted by itself, with limits of its own: it acts for many accounts. Each process counts for itself.

Of an account's requests only a few are worked on at a time, and the others wait for their turn. So another account's
request never waits for more than those few, however many one account sends at once.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal
from weakref import WeakValueDictionary

from ..core.outcomes import Refusal
from ..errors import Refused
from .identity.callers import Caller
from .settings import Settings

What = Literal["requests", "streams", "bytes"]

RETRY_AFTER_S: Final = 1.0
_WORDS: Final[dict[What, str]] = {
    "requests": "requests under way",
    "streams": "live streams",
    "bytes": "bytes of bodies and answers under way",
}


class UnderWay:
    """The counts of one process, and their limits."""

    def __init__(self, settings: Settings) -> None:
        self._counts: dict[tuple[str, What], int] = {}
        self._of_accounts: Final[dict[What, int]] = {
            "requests": settings.account_requests,
            "streams": settings.account_streams,
            "bytes": settings.account_bytes,
        }
        self._of_operators: Final[dict[What, int]] = {
            "requests": settings.operator_requests,
            "streams": settings.operator_streams,
            "bytes": settings.operator_bytes,
        }
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._at_a_time = settings.account_turns

    def turns(self, caller: Caller) -> asyncio.Semaphore | None:
        """The turns that the requests of this account take; a service or admin key waits for none."""
        if caller.account is None:
            return None
        found = self._turns.get(caller.account)
        if found is None:
            found = self._turns[caller.account] = asyncio.Semaphore(self._at_a_time)
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
        self._turns: asyncio.Semaphore | None = None
        """Those of its account, while it has one of them."""

    async def take_turn(self) -> None:
        """Waits until the request may be worked on."""
        if self._caller is not None and self._turns is None:
            turns = self._under_way.turns(self._caller)
            if turns is not None:
                await turns.acquire()
            self._turns = turns

    def leave_turn(self) -> bool:
        """Lets the account's next request be worked on: this one is answered, or waits for something. False if it had
        no turn."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()
        return turns is not None

    def begin(self, caller: Caller) -> None:
        """Counts the request as its caller's; refused if the caller has too many under way."""
        self._caller = caller
        self._who = f"key {caller.key_id}" if caller.account is None else f"account {caller.account}"
        self.take("requests")

    def become_stream(self) -> None:
        """Counts the request as a live stream from now on."""
        self.take("streams")
        self.leave_turn()
        self.give_back("requests", self._taken.get("requests", 0))

    def take(self, what: What, amount: int = 1) -> None:
        """Refused beyond the limit, unless it is all that the caller has: one alone is bounded elsewhere."""
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
        """Gives all of it back."""
        self.leave_turn()
        for what, amount in self._taken.items():
            self._under_way.change(self._who, what, -amount)
        self._taken = {}
