"""Removes what is older than it is kept, and the rows of an account that is erased."""

from __future__ import annotations

from msgspec import Struct

from ..records import ContentName
from .base import Command


class OldJob(Struct, frozen=True, gc=False):
    """A job that may be due for removal, and what a query found that belongs to it.

    files: files that it made. inputs: files that its payload names. content: the content that it has computed.
    """

    id: str
    files: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    content: ContentName | None = None


class PruneJobs(Command, frozen=True):
    """Removes what is due of some jobs of an account (see `core/retention.py`).

    batches: batches of which a query found no other jobs; they are removed with their last jobs.
    submitted: how many jobs the account had submitted before that query. If batches are named and the account has
        submitted more since, nothing is done.
    """

    account_id: str
    jobs: tuple[OldJob, ...]
    batches: tuple[str, ...] = ()
    submitted: int = 0


class MoveRetention(Command, frozen=True):
    """Stores how far the walks under these rules have come: by age, the id of the last job. If another move was stored
    meanwhile, which raised the turn, nothing is changed."""

    rules: str
    turn: int
    walks: dict[str, str]


class CloseAccount(Command, frozen=True):
    """Closes an account for good, which begins its erasure. Removes its webhook endpoints and page sessions, and
    revokes its API keys and removes their names. `api_keys`: the ids of the keys that act for it."""

    account_id: str
    api_keys: tuple[str, ...] = ()


class EraseRows(Command, frozen=True):
    """Removes rows of a closed account other than its jobs and files, as queries found them.

    keys: idempotency keys, by scope and key. entries: the numbers of ledger lines that lose their reason. audit: the
        numbers of audit lines that lose their words.
    """

    account_id: str
    keys: tuple[tuple[str, str], ...] = ()
    reservations: tuple[str, ...] = ()
    deliveries: tuple[str, ...] = ()
    entries: tuple[int, ...] = ()
    audit: tuple[int, ...] = ()
