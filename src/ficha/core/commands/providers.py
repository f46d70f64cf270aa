"""External providers: turns to send a request, circuit breakers, call-backs, and asking how the work is."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from ..policy import TurnTerms
from .base import Command


class TakeTurn(Command, frozen=True):
    """Reserves one request to a provider: the caller waits for as long as the outcome says, then sends it."""

    provider: str
    turn_id: str
    terms: TurnTerms = TurnTerms()


class EndTurn(Command, frozen=True):
    """The request is over. `is_fault`: whether the provider failed; None if nothing is known of that, as when the
    caller was cancelled. `took_ms`: how long it took; None if none was sent."""

    provider: str
    turn_id: str
    terms: TurnTerms = TurnTerms()
    is_fault: bool | None = False
    error: str | None = None
    took_ms: int | None = None


class OpenBreaker(Command, frozen=True):
    """Keeps all requests from a provider for so long, whatever its requests say. Then a probe goes out.

    is_declared: whether the application has a provider of that name; of any other there must be a state.
    """

    provider: str
    open_ms: int
    is_declared: bool = False
    reason: str | None = None


class CloseBreaker(Command, frozen=True):
    """Lets requests go to a provider again, at once."""

    provider: str
    is_declared: bool = False


Verdict = Literal["verified", "unsigned", "unread", "forged"]
"""What is thought of a call-back: it proves who sent it; its provider signs nothing; it could not be checked now; it is
not the provider's. Of a forged one nothing is believed; all others have the job's token, and are a reason to ask."""


class NoteCallback(Command, frozen=True):
    """A provider called back, with the token of the job's run: keeps what it said, and has the provider asked at once.

    attempt: the failed runs before that run. ref: the provider's reference that it names, if any. told: what it says of
    the work (JSON text), if it is verified.
    """

    job_id: str
    attempt: int
    verdict: Verdict
    ref: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    told: str | None = None


class HoldPoll(Command, frozen=True):
    """Takes a job whose provider is to be asked now, for so long: whoever holds it asks, and is taken for dead after
    that. With `held_at`, renews the hold that lasts until then."""

    job_id: str
    hold_ms: int
    held_at: int | None = None


class EndPoll(Command, frozen=True):
    """The provider was asked, and the work goes on: it is asked again later, unless a call-back came meanwhile.

    held_at: until when the job was held. after_ms: not before that time, as the provider said. progress: percent.
    """

    job_id: str
    held_at: int
    poll_ms: int
    after_ms: int = 0
    progress: int | None = None
