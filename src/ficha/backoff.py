"""Pauses before retries: the bound doubles each time, and jitter spreads the retries.

(How long a failed job waits is a rule in `core/policy.py`.)
"""

from __future__ import annotations

import random
from typing import Final

AWAY_S: Final = 2.0
AWAY_MAX_S: Final = 20.0
"""`AWAY_S` bounds the first pause while the database is unreachable, `AWAY_MAX_S` every pause. On average a pause is
half of its bound."""


def bound_s(tries: int, first_s: float, most_s: float) -> float:
    """The longest pause after this many tries, from 1 up: it doubles with each try, up to `most_s`."""
    # The exponent is bounded because 2.0**1024 is an error, not a long time.
    return min(most_s, first_s * 2.0 ** min(tries - 1, 60))


def pause_s(tries: int, first_s: float, most_s: float) -> float:
    """A random pause from 0 up to that bound."""
    return random.uniform(0.0, bound_s(tries, first_s, most_s))  # noqa: S311 (jitter, not a secret)


def away_pause_s(tries: int) -> float:
    """A pause while the database is unreachable."""
    return pause_s(tries, AWAY_S, AWAY_MAX_S)
