"""What goes wrong, and how often. Each seed has its own mixture: some faults never, some rarely, some all the time.

A mixture in which every fault happens at a middling rate finds less than many that differ: a rare fault needs the
others to be quiet for the system to get far enough.
"""

from __future__ import annotations

from random import Random
from typing import Literal

from msgspec import Struct

CommitFate = Literal["answered", "never sent", "reply lost", "late"]


class Faults(Struct, kw_only=True):
    """Chances are per act, `_every_s` mean times between events over the whole system; 0 is never."""

    latency_s: float
    cut: float = 0.0
    """A connection breaks before COMMIT was sent: nothing is kept."""
    conflict: float = 0.0
    never_sent: float = 0.0
    """A connection breaks so that COMMIT did not arrive, and nobody knows."""
    reply_lost: float = 0.0
    """It was committed, and nobody was told."""
    late: float = 0.0
    """The client thinks that the connection is lost, and the commit takes place later."""
    request_lost: float = 0.0
    answer_lost: float = 0.0
    hint_lost: float = 0.0
    crash_every_s: float = 0.0
    stop_every_s: float = 0.0
    """Processes that stand still for a while, often longer than a lease."""
    away_every_s: float = 0.0
    """The database restarts."""
    slow_every_s: float = 0.0
    step_every_s: float = 0.0
    """A clock is set, a process's or the database's."""
    skew_s: float = 0.0
    """How far the clocks of processes may be off."""

    def calm(self) -> None:
        """The faults stop."""
        for name in self.__struct_fields__:
            if name not in ("latency_s", "skew_s"):
                setattr(self, name, 0.0)

    def commit_fate(self, random: Random) -> CommitFate:
        drawn = random.random()
        for fate, chance in (("never sent", self.never_sent), ("reply lost", self.reply_lost), ("late", self.late)):
            if drawn < chance:
                return fate
            drawn -= chance
        return "answered"


def draw_faults(random: Random) -> Faults:
    """The faults of a seed."""

    def some(most: float, share: float = 0.5) -> float:
        return most * random.random() ** 2 if random.random() < share else 0.0

    def every(least_s: float, share: float = 0.5) -> float:
        return least_s * random.choice((1.0, 2.0, 5.0)) if random.random() < share else 0.0

    return Faults(
        latency_s=random.choice((0.0005, 0.002, 0.02)),
        cut=some(0.1),
        conflict=some(0.1),
        never_sent=some(0.1),
        reply_lost=some(0.15),
        late=some(0.1),
        request_lost=some(0.1),
        answer_lost=some(0.3),
        hint_lost=some(1.0),
        crash_every_s=every(2.0, 0.6),
        stop_every_s=every(3.0, 0.6),
        away_every_s=every(8.0, 0.3),
        slow_every_s=every(8.0, 0.3),
        step_every_s=every(5.0, 0.4),
        skew_s=random.choice((0.0, 0.5, 60.0, 7_200.0)),
    )
