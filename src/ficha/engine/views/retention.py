"""What a prune removed by age, and what erasing an account removed."""

from __future__ import annotations

from msgspec import Struct

from ...core.outcomes import Removal


class PruneCount(Struct, frozen=True):
    """Of how many jobs of a tool and a plan this was removed: the whole job, its result, or its payload."""

    what: Removal
    tool: str
    plan: str
    count: int


class PruneReport(Struct, frozen=True, kw_only=True):
    """What was removed by age, or would be (`dry_run`).

    jobs: by what was removed, tool and plan. batches: those whose last jobs were removed. files: those removed with
    their jobs. deliveries: webhook messages that ended long ago.
    exported: the file with what was removed. more: whether the time was up before the end; another prune continues.
    """

    jobs: list[PruneCount]
    dry_run: bool = False
    batches: int = 0
    files: int = 0
    deliveries: int = 0
    exported: str | None = None
    more: bool = False


class Erased(Struct, frozen=True):
    """What this call removed of an account, and the account's remaining credits. A repeated call removes what an
    earlier one left: nothing, if that one finished.

    cancelled: jobs that had not ended. rows: keys, reservations, messages, and ledger lines that lost their reason.
    """

    account: str
    balance: int
    cancelled: int = 0
    jobs: int = 0
    files: int = 0
    rows: int = 0
