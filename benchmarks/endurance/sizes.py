"""How much each measure does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Size:
    """
    accounts: who own the jobs, but for those of the one account that owns most of them.
    small, large: the two queues that are compared; `owned` of the large one are that account's.
    history: jobs that ended before.
    cycles, warm_up: how often each call is timed, and how often it is made before that; the two databases take turns
        of `round_cycles`.
    polled: jobs that wait while `clients` ask for their place every `poll_every_s`, for `poll_s` a time.
    before_s, held_s, after_s, step_s: the phases of the long transaction, and the step of the series.
    processes, owners, scale_s: how many processes, how many accounts share the jobs, and how long each run is.
    lived, lived_step: jobs that one engine lives through, and how often its memory is looked at; `lived_accounts` own
        them, so many that whatever is kept for each would show.
    idle_s, watched_s: how long an idle process is left alone before its memory is looked at, or before a worker is
        watched, and for how long that is.
    """

    accounts: int = 2_000
    small: int = 1_000
    large: int = 1_000_000
    owned: int = 990_000
    history: int = 5_000_000
    cycles: int = 2_000
    warm_up: int = 100
    round_cycles: int = 10
    polled: int = 100_000
    clients: int = 10_000
    poll_every_s: float = 3.0
    poll_s: float = 60.0
    before_s: float = 60.0
    held_s: float = 180.0
    after_s: float = 120.0
    step_s: float = 10.0
    processes: tuple[int, ...] = (1, 2, 4, 8)
    owners: tuple[int, ...] = (1, 2_000, 200_000)
    scale_s: float = 6.0
    lived: int = 1_000_000
    lived_step: int = 50_000
    lived_accounts: int = 100_000
    idle_s: float = 5.0
    watched_s: float = 30.0


QUICK: Final = Size(
    accounts=7,
    small=120,
    large=400,
    owned=250,
    history=300,
    cycles=3,
    warm_up=1,
    round_cycles=2,
    polled=100,
    clients=50,
    poll_every_s=0.1,
    poll_s=0.4,
    before_s=0.3,
    held_s=0.3,
    after_s=0.3,
    step_s=0.3,
    processes=(1, 2),
    owners=(1,),
    scale_s=0.2,
    lived=800,
    lived_step=200,
    lived_accounts=7,
    idle_s=0.1,
    watched_s=1.5,
)
"""A smoke run: everything happens, and no figure means anything."""
