"""What leaves by its age, and what leaves with an account that is erased."""

from __future__ import annotations

from msgspec import Struct

from ..records import ContentName
from .base import Command


class OldJob(Struct, frozen=True, gc=False):
    """A job that may be due, and what was found that belongs to it.

    files: those that it made. inputs: those that its payload names. content: the content that it has computed.
    """

    id: str
    files: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    content: ContentName | None = None


class PruneJobs(Command, frozen=True):
    """Removes what is due of some jobs of an account (see `core/retention.py`).

    batches: those of which no other job was found when the account had submitted so many (`submitted`): they leave with
        their last jobs. Where the account has submitted more since, nothing is done.
    """

    account_id: str
    jobs: tuple[OldJob, ...]
    batches: tuple[str, ...] = ()
    submitted: int = 0


class MoveRetention(Command, frozen=True):
    """The walk under these rules has come so far: by age, the id of the last job. A move that was made meanwhile, which
    has raised the turn, goes before it."""

    rules: str
    turn: int
    walks: dict[str, str]


class CloseAccount(Command, frozen=True):
    """Closes an account for good, and removes what identifies its owner's programs and pages: the erasure of an account
    begins with it. `api_keys` are the ids of those that act for it."""

    account_id: str
    api_keys: tuple[str, ...] = ()


class EraseRows(Command, frozen=True):
    """Removes what a closed account has beside its jobs and files, as it was found.

    keys: idempotency keys, by scope and key. entries: the numbers of ledger lines that lose their reason.
    """

    account_id: str
    keys: tuple[tuple[str, str], ...] = ()
    reservations: tuple[str, ...] = ()
    deliveries: tuple[str, ...] = ()
    entries: tuple[int, ...] = ()
