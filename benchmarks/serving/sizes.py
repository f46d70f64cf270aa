"""How much each measure does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Size:
    """
    streams: how many are open; `account_streams` of them follow an account, the others a job that waits.
    rate, submit_s, warm_up_s: submits per second, for how long, and for how long before anything is counted: what a
        server remembers of jobs and accounts takes most of a minute to fill.
    lanes: connections that submit at the rate; a submit that finds none free waits for one, and that counts.
    look_s: how often the server's memory is looked at.
    released: waiting jobs that are finished per second in the end, so that each stream has something to tell.
    callers: connections in a closed loop, each asking again as soon as it is answered.
    rounds, round_s: how often each route is asked, and for how long a time.
    processes: how many serve one port.
    """

    streams: int = 2_000
    account_streams: int = 200
    rate: int = 500
    submit_s: float = 60.0
    warm_up_s: float = 60.0
    lanes: int = 64
    look_s: float = 1.0
    released: int = 400
    callers: int = 64
    rounds: int = 3
    round_s: float = 1.5
    processes: tuple[int, ...] = (1, 2)


QUICK: Final = Size(
    streams=90,
    account_streams=70,
    rate=50,
    submit_s=1.0,
    warm_up_s=0.2,
    lanes=8,
    look_s=0.2,
    callers=8,
    rounds=1,
    round_s=0.1,
    processes=(2,),
)
"""A smoke run: everything happens, and no figure means anything."""
