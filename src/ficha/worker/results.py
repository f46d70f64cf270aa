"""What a handler can return instead of its result, and the exceptions that it can raise on purpose."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Partial(Struct, frozen=True):
    """Part of the work was delivered (3 of 4 images): the job completes, the rest is refunded."""

    result: Any
    delivered: int
    of: int


class Retry(Struct, frozen=True):
    """Run the job again after so many seconds; it does not count as a failure."""

    after: float
    reason: str | None = None


class Cancel(Struct, frozen=True):
    """The job is no longer needed: it is cancelled and refunded."""

    reason: str


class Accepted(Struct, frozen=True):
    """An external provider has the work and will call back with this reference; the worker is free."""

    ref: str


class StartedWork(Struct, frozen=True):
    """What a provider tool's run ends with: the provider has the work, and is asked after so many seconds if it has not
    called back."""

    ref: str
    poll_s: float


ENDINGS = (Partial, Retry, Cancel, Accepted)
"""What a handler may return instead of its result."""


class UserError(Exception):
    """Raise it with words for the job's owner, who reads no other exception's text. The run failed, and is retried
    while the tool has attempts left."""


class FinalError(UserError):
    """Raise it where a retry cannot help: the job fails at once and is refunded, however many attempts are left. Its
    words are for the job's owner, as those of `UserError` are."""


class UnstorableValue(FinalError):
    """A value that a job was to store is not JSON and has no usual form as JSON, or is too large. Its words are for
    whoever wrote the tool, not for the job's owner.

    It is final: another run would make the paid calls before it again, and fail at the same place.
    """


def is_for_owner(error: BaseException) -> bool:
    """Whether an exception's words were written for the job's owner."""
    return isinstance(error, UserError) and not isinstance(error, UnstorableValue)
