"""Traffic: who asked for what and when, and how long each run takes. The same traffic goes through every scenario."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..core.policy import SECOND

RunEnd = Literal["completed", "failed", "fatal", "cancelled"]
"""How the runs of a job end: `failed`: each of them; `fatal`: with an error that is not retried."""

GROWTH_SHIFT: Final = 1_800 * SECOND
"""How much later than its original a copy of an arrival, made to grow the traffic, comes at most."""


class Unusable(Exception):
    """The input cannot be simulated; the message names the key or the line, and what is allowed."""


class Arrival(Struct, frozen=True, gc=False):
    """A submit of one job, and what will come of its runs.

    cost: what it cost when it was recorded; None: what the tool asks for.
    failures: runs that fail before the one that ends as `end` says.
    delivered: of `units`, where only a part was delivered.
    patience_us: how long its owner waits for its start before they cancel it; None: for ever.
    is_first: whether it is the account's first job ever.
    """

    at: int
    account: str
    plan: str
    tool: str
    run_us: int
    cost: int | None = None
    units: int = 1
    delivered: int | None = None
    failures: int = 0
    end: RunEnd = "completed"
    patience_us: int | None = None
    is_first: bool = False


class Traffic(Struct, frozen=True):
    """Arrivals in the order of time, from `starts_at` to `ends_at`. `notes` say what was left out, and why. pickup_us:
    how long a free slot stayed free although a job waited, where that was recorded."""

    arrivals: list[Arrival]
    starts_at: int
    ends_at: int
    notes: tuple[str, ...] = ()
    pickup_us: int = 0

    def grown(self, times: float) -> Traffic:
        """Returns the traffic, multiplied. Added arrivals are those of further customers: each account gets twins,
        which submit all or some of the same jobs a little later. With less than 1, arrivals are left out at random."""
        if times == 1:
            return self
        every, share = int(times), times - int(times)
        made = []
        for number, arrival in enumerate(self.arrivals):
            for twin in range(every + (fraction(number, 1) < share)):
                made.append(arrival if twin == 0 else _twin(arrival, number, twin, self.ends_at))
        made.sort(key=_at)
        return replace(self, arrivals=made)


def _twin(arrival: Arrival, number: int, twin: int, ends_at: int) -> Arrival:
    at = min(ends_at - 1, arrival.at + int(GROWTH_SHIFT * fraction(number, twin + 1)))
    return replace(arrival, at=at, account=f"{arrival.account}~{twin}")


def _at(arrival: Arrival) -> int:
    return arrival.at


def fraction(number: int, salt: int) -> float:
    """A number from 0 up to 1 that looks random and depends on nothing else: every scenario draws the same."""
    mixed = (number * 0x9E3779B97F4A7C15 + salt * 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ (mixed >> 31)) / 2**64


def percentile(ordered: list[int], share: float) -> int:
    """Returns the value that this share of the sorted values does not exceed; 0 if there are none."""
    return ordered[max(0, -(-int(len(ordered) * share * 1_000) // 1_000) - 1)] if ordered else 0
