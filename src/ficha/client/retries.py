"""When a request is retried, and after how long. A retry must never do again what was done already."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..backoff import bound_s
from ..errors import Refused
from .errors import ServerError, Unreachable


class Retries(Struct, frozen=True, kw_only=True):
    """How a client retries, by itself, the requests that may be retried.

    tries: how often a request is sent at most. Defaults to 8; 1 retries nothing.
    give_up_s: after this time nothing is retried. Defaults to 60 s.
    backoff_s, backoff_max_s: a pause is random, from 0 to `backoff_s`, which doubles with every try up to
        `backoff_max_s`. Default to 0.2 s and 10 s.
    retry_after_max_s: the longest pause that a server may ask for (`Retry-After`); if it asks for more, nothing is
        retried. Defaults to 60 s.
    """

    tries: int = 8
    give_up_s: float = 60.0
    backoff_s: float = 0.2
    backoff_max_s: float = 10.0
    retry_after_max_s: float = 60.0

    def backoff(self, tried: int, drawn: float) -> float:
        """The pause after the try number `tried`; `drawn` is a random number from 0 to 1."""
        return drawn * bound_s(tried, self.backoff_s, self.backoff_max_s)


STANDARD: Final = Retries()


def pause_s(
    retries: Retries, trouble: Refused | ServerError, *, harmless: bool, tried: int, left_s: float, drawn: float
) -> float | None:
    """How long to wait before the request is sent again; None if it must not be, or there is no time for it."""
    if tried >= retries.tries or not _may_repeat(trouble, harmless):
        return None
    asked = 0.0
    if isinstance(trouble, Refused | Unreachable):
        asked = trouble.retry_after_s or 0.0
    if asked > retries.retry_after_max_s:
        return None
    # Never earlier than the server asked for, and not at the same moment as all other clients that it asked.
    pause = asked + retries.backoff(tried, drawn)
    return pause if pause < left_s else None


def _may_repeat(trouble: Refused | ServerError, harmless: bool) -> bool:
    match trouble:
        case Unreachable():
            return harmless or not trouble.reached
        case Refused():
            return harmless and trouble.retryable
        case _:
            return False
