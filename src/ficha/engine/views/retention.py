"""What left by its age, and what an account that was erased has left."""

from __future__ import annotations

from msgspec import Struct

from ...core.outcomes import Removal


class PruneCount(Struct, frozen=True):
    """Of how many jobs of a tool and a plan so much left: the job, its result, or its payload."""

    what: Removal
    tool: str
    plan: str
    count: int


class PruneReport(Struct, frozen=True, kw_only=True):
    """What left by its age, or would leave (`dry_run`).

    jobs: by what left, tool and plan. batches: those whose last jobs left. files: those that left with their jobs.
    deliveries: webhook messages that ended long ago.
    exported: the file that has what left. more: whether the time was up before the end; another prune goes on.
    """

    jobs: list[PruneCount]
    dry_run: bool = False
    batches: int = 0
    files: int = 0
    deliveries: int = 0
    exported: str | None = None
    more: bool = False


class Erased(Struct, frozen=True):
    """What was removed of an account now, and the credits that it has left. A repeat removes what an earlier call left,
    which is nothing if that came to its end.

    cancelled: jobs that had not ended. rows: keys, reservations, messages, and ledger lines that lost their reason.
    """

    account: str
    balance: int
    cancelled: int = 0
    jobs: int = 0
    files: int = 0
    rows: int = 0
