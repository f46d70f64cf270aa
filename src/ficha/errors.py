"""The exceptions of the in-process face.

Refused                 a call was refused and changed nothing; `code` says why
├── ActiveJobExists     ├── InvalidArgument    ├── NotFound
├── CostLimit           ├── InvalidPayload     ├── Overloaded
├── IdempotencyMismatch ├── InvalidState       ├── QuotaExceeded
├── InsufficientCredits ├── LeaseLost          ├── RateLimited
├── TooLarge            └── UnknownTool
"""

from __future__ import annotations

from typing import Any, ClassVar

from .core.outcomes import Code, Refusal


class Refused(Exception):
    """A call was refused and changed nothing. The message says what to do."""

    _by_code: ClassVar[dict[str, type[Refused]]] = {}

    def __init_subclass__(cls, code: Code) -> None:
        cls._by_code[code] = cls

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.code: Code = refusal.code
        self.message: str = refusal.message
        self.retryable: bool = refusal.retryable
        self.retry_after_s: float | None = refusal.retry_after_s
        self.details: dict[str, Any] = refusal.details

    @classmethod
    def of(cls, refusal: Refusal) -> Refused:
        """The exception for a refusal, of the class that its code has."""
        return cls._by_code.get(refusal.code, Refused)(refusal)


class ActiveJobExists(Refused, code="ACTIVE_JOB_EXISTS"):
    """The plan allows one active job, and there is one."""


class CostLimit(Refused, code="COST_LIMIT"):
    """The account's spending limit for the day or month is reached."""


class IdempotencyMismatch(Refused, code="IDEMPOTENCY_MISMATCH"):
    """The key was used before, for something else."""


class InsufficientCredits(Refused, code="INSUFFICIENT_CREDITS"):
    """The balance does not cover the cost."""


class InvalidArgument(Refused, code="INVALID_ARGUMENT"):
    """An argument is out of its range or of the wrong form."""


class InvalidPayload(Refused, code="INVALID_PAYLOAD"):
    """The payload is not what the tool takes, or not JSON."""


class InvalidState(Refused, code="INVALID_STATE"):
    """What is asked for does not fit the thing's present state."""


class LeaseLost(Refused, code="LEASE_LOST"):
    """The worker no longer holds the job; it must stop working on it."""


class NotFound(Refused, code="NOT_FOUND"):
    """There is no such thing."""


class Overloaded(Refused, code="OVERLOADED"):
    """Too much waits already, or the database is away. Trying again later may work."""


class QuotaExceeded(Refused, code="QUOTA_EXCEEDED"):
    """The account has as many active jobs and reservations as its plan allows."""


class RateLimited(Refused, code="RATE_LIMITED"):
    """The account has submitted as many jobs this hour as its plan allows."""


class TooLarge(Refused, code="TOO_LARGE"):
    """More than a limit allows."""


class UnknownTool(Refused, code="UNKNOWN_TOOL"):
    """No tool of that name is declared."""
