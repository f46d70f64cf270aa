"""External providers: turns to send a request, circuit breakers, call-backs and polls."""

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
    """Ends a turn: its request is over. `is_fault`: whether the provider failed; None if that is unknown, as when the
    caller was cancelled. `took_ms`: how long the request took; None if none was sent."""

    provider: str
    turn_id: str
    terms: TurnTerms = TurnTerms()
    is_fault: bool | None = False
    error: str | None = None
    took_ms: int | None = None


class OpenBreaker(Command, frozen=True):
    """Blocks all requests to a provider for `open_ms`, even if earlier ones succeed meanwhile. Then a probe goes out.

    is_declared: whether the application has a provider of that name. If not, a state of it must be stored.
    """

    provider: str
    open_ms: int
    is_declared: bool = False
    reason: str | None = None


class CloseBreaker(Command, frozen=True):
    """Lets requests go to a provider again, at once."""

    provider: str
    is_declared: bool = False


class NoteStart(Command, frozen=True):
    """The worker is about to ask a provider to start the job's work under `target`; from now on the provider may have
    received that. If this run is lost, the next one of the same attempt finds out what became of it, or counts as
    failed, and does not start the work twice."""

    job_id: str
    epoch: int
    provider: str
    target: str


Verdict = Literal["verified", "unsigned", "unread", "forged"]
"""How far a call-back is trusted. verified: it proves who sent it. unsigned: its provider signs nothing. unread: it
could not be checked now. forged: it is not the provider's, and nothing in it is believed. All but the forged have the
job's token, and so cause a poll."""


class NoteCallback(Command, frozen=True):
    """Stores a call-back, which came with the token of the job's run, and makes a poll of the provider due at once.

    attempt: how many runs failed before that run. ref: the provider's reference in the call-back, if any. told: what
    the call-back says of the work (JSON text), if it is verified. ends: whether it says that the work has ended.
    """

    job_id: str
    attempt: int
    verdict: Verdict
    ref: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    told: str | None = None
    ends: bool = False


class HoldPoll(Command, frozen=True):
    """Holds a job whose poll is due for `hold_ms`, to ask its provider. After that time the holder counts as dead. With
    `held_at`, renews the hold that lasts until then."""

    job_id: str
    hold_ms: int
    held_at: int | None = None


class EndPoll(Command, frozen=True):
    """Ends a poll after which the work goes on: the next one comes later, or at once if a call-back came meanwhile.

    held_at: until when the job was held. after_ms: the shortest wait that the provider asked for. progress: percent.
    """

    job_id: str
    held_at: int
    poll_ms: int
    after_ms: int = 0
    progress: int | None = None
