"""How a run ends: one value for each way."""

from __future__ import annotations

from msgspec import Struct

from .base import Command


class Completed(Struct, frozen=True, gc=False, tag=True):
    """The run succeeded. With `delivered` below the job's units, the rest is refunded.

    provider_cost: what the run cost at an external provider, in millionths of the operator's currency; None if unknown.
    """

    result_json: str
    delivered: int | None = None
    of: int | None = None
    provider_cost: int | None = None


class Failed(Struct, frozen=True, gc=False, tag=True):
    """This run failed. A `final` error is not retried, whatever attempts are left.

    for_user: the tool wrote `error` for the job's owner. Any other error text is for operators.
    traceback: for operators, kept in the job's history.
    provider_cost: as in `Completed`: a failed run may cost something too.
    """

    error: str
    final: bool = False
    for_user: bool = False
    traceback: str | None = None
    provider_cost: int | None = None


class RetryLater(Struct, frozen=True, gc=False, tag=True):
    """The handler asks to be run again; it does not count as a failure.

    unsent: whether the run asked a provider to start its work, and the provider certainly has nothing of it (see
    `NoteStart`).
    """

    after_ms: int
    reason: str | None = None
    unsent: bool = False


class CancelledByHandler(Struct, frozen=True, gc=False, tag=True):
    reason: str


class AcceptedByProvider(Struct, frozen=True, gc=False, tag=True):
    """An external provider has the work and will call back under `ref`.

    poll_ms: how long to wait for the call-back before the provider is polled; None: it is never polled.
    """

    ref: str
    poll_ms: int | None = None


class Interrupted(Struct, frozen=True, gc=False, tag=True):
    """The run was interrupted from outside: the worker stops, or (`lost`) its process died, which counts as a
    recovery."""

    reason: str
    lost: bool = False


class TimedOut(Struct, frozen=True, gc=False, tag=True):
    """The run reached the job's time limit. This ends the job, whatever attempts are left."""


Ending = Completed | Failed | RetryLater | CancelledByHandler | AcceptedByProvider | Interrupted | TimedOut


class Finish(Command, frozen=True):
    """How a run ended. `epoch` fences a worker; a provider's call-back, which is verified otherwise, has none."""

    job_id: str
    ending: Ending
    epoch: int | None = None
    jitter: float = 0.0
    """A number from 0 up to 1, drawn by the caller, that spreads the backoff."""
    account_id: str | None = None
    """When given, another account's job is not found."""
    attempt: int | None = None
    """For a provider's report: how many runs failed before the run it is about. A report about another run is late."""
