"""What a handler may return instead of a result, and the exceptions that it may raise on purpose."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Partial(Struct, frozen=True):
    """Part of the work was delivered (3 of 4 images): the job completes, the rest is refunded."""

    result: Any
    delivered: int
    of: int


class Retry(Struct, frozen=True):
    """Run the job again after `after` seconds; this does not count as a failure."""

    after: float
    reason: str | None = None


class Cancel(Struct, frozen=True):
    """The job is no longer needed: it is cancelled and refunded."""

    reason: str


class Accepted(Struct, frozen=True):
    """An external provider has the work and will call back with this reference; the worker is free."""

    ref: str


class StartedWork(Struct, frozen=True):
    """The ending of a provider tool's run: the provider has the work, and is polled after `poll_s` seconds if it has
    not called back."""

    ref: str
    poll_s: float


class PostponedStart(Struct, frozen=True):
    """The ending of a provider tool's run whose start is to be tried again. `unsent`: the provider has nothing of it.
    Otherwise it may have, and will be asked."""

    after: float
    reason: str
    unsent: bool


ENDINGS = (Partial, Retry, Cancel, Accepted)
"""What a handler may return instead of its result."""


class UserError(Exception):
    """Raise it with a message for the job's owner, who sees no other exception's message. The run fails, and the job is
    retried while the tool has attempts left."""


class FinalError(UserError):
    """Raise it if a retry cannot help: the job fails at once and is refunded, however many attempts are left. Its
    message is for the job's owner, as that of `UserError`."""


class UnstorableValue(FinalError):
    """A value that a job was to store is not JSON and has no usual form as JSON, or is too large. Its message is for
    the author of the tool, not for the job's owner.

    It is final: another run would repeat the paid calls before it, and fail at the same place.
    """


def is_for_owner(error: BaseException) -> bool:
    """Whether an exception's message is for the job's owner."""
    return isinstance(error, UserError) and not isinstance(error, UnstorableValue)
