"""The exceptions of the in-process face.

Refused                 a call was refused and changed nothing; `code` says why
├── AccountClosed       ├── InvalidFile         ├── ProviderDown
├── ActiveJobExists     ├── InvalidPayload      ├── QuotaExceeded
├── CostLimit           ├── InvalidState        ├── RateLimited
├── IdempotencyMismatch ├── LeaseLost           ├── ToolClosed
├── InsufficientCredits ├── NotFound            ├── TooLarge
├── InvalidArgument     ├── Overloaded          └── UnknownTool

A class is named after its code, and the table of codes (`core/codes.py`) says what it means.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .core.codes import CODES, Code
from .core.outcomes import Refusal

__all__ = [
    "AccountClosed",
    "ActiveJobExists",
    "CostLimit",
    "IdempotencyMismatch",
    "InsufficientCredits",
    "InvalidArgument",
    "InvalidFile",
    "InvalidPayload",
    "InvalidState",
    "LeaseLost",
    "NotFound",
    "Overloaded",
    "ProviderDown",
    "QuotaExceeded",
    "RateLimited",
    "Refused",
    "TooLarge",
    "ToolClosed",
    "UnknownTool",
]


class Refused(Exception):
    """A call was refused and changed nothing. The message says what to do."""

    by_code: ClassVar[dict[str, type[Refused]]] = {}

    def __init_subclass__(cls, code: Code) -> None:
        cls.__doc__ = f"{code}: {CODES[code].when}."
        cls.by_code[code] = cls

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal: Refusal = refusal
        self.code: Code = refusal.code
        self.message: str = refusal.message
        self.retryable: bool = refusal.retryable
        self.retry_after_s: float | None = refusal.retry_after_s
        self.details: dict[str, Any] = refusal.details

    @classmethod
    def of(cls, refusal: Refusal) -> Refused:
        """The exception for a refusal, of the class for its code."""
        return cls.by_code.get(refusal.code, Refused)(refusal)


class AccountClosed(Refused, code="ACCOUNT_CLOSED"): ...


class ActiveJobExists(Refused, code="ACTIVE_JOB_EXISTS"): ...


class CostLimit(Refused, code="COST_LIMIT"): ...


class IdempotencyMismatch(Refused, code="IDEMPOTENCY_MISMATCH"): ...


class InsufficientCredits(Refused, code="INSUFFICIENT_CREDITS"): ...


class InvalidArgument(Refused, code="INVALID_ARGUMENT"): ...


class InvalidFile(Refused, code="INVALID_FILE"): ...


class InvalidPayload(Refused, code="INVALID_PAYLOAD"): ...


class InvalidState(Refused, code="INVALID_STATE"): ...


class LeaseLost(Refused, code="LEASE_LOST"): ...


class NotFound(Refused, code="NOT_FOUND"): ...


class Overloaded(Refused, code="OVERLOADED"): ...


class ProviderDown(Refused, code="PROVIDER_DOWN"): ...


class QuotaExceeded(Refused, code="QUOTA_EXCEEDED"): ...


class RateLimited(Refused, code="RATE_LIMITED"): ...


class ToolClosed(Refused, code="TOOL_CLOSED"): ...


class TooLarge(Refused, code="TOO_LARGE"): ...


class UnknownTool(Refused, code="UNKNOWN_TOOL"): ...
