"""Questions about accounts: the ledger, reservations, idempotency keys."""

from __future__ import annotations

from ...core.records import Account, Entry, Key, Reservation, ReservationState
from .query import Query


class GetAccount(Query[Account | None], frozen=True):
    account_id: str


class ListAccounts(Query[list[Account]], frozen=True):
    """By id, ascending, after `after`; with a `prefix`, those whose id begins with it."""

    after: str | None = None
    limit: int = 50
    prefix: str | None = None

    @property
    def prefix_end(self) -> str | None:
        """A text that is greater than every id with the prefix: it ends with the last character of Unicode."""
        return None if self.prefix is None else self.prefix + "\U0010ffff"


class ListEntries(Query[list[Entry]], frozen=True):
    """Newest first; `before_number` is the number before which the page starts."""

    account_id: str
    before_number: int | None = None
    limit: int = 50


class ListJobEntries(Query[list[Entry]], frozen=True):
    """The entries of one job, in the order in which they were written."""

    job_id: str


class ListReservations(Query[list[Reservation]], frozen=True):
    """Newest first (by id, descending). The state is as stored: an active one may have expired.

    state, at: only those that are in this state at that time, swept or not.
    """

    account_id: str | None = None
    before: str | None = None
    limit: int = 50
    state: ReservationState | None = None
    at: int = 0


class CountReservations(Query[dict[ReservationState, int]], frozen=True):
    """How many reservations are in each state at a time, of one account or of all."""

    at: int
    account_id: str | None = None


class ListKeys(Query[list[Key]], frozen=True):
    """By account, key and scope, ascending, after those three; with a `key`, those of that name only."""

    account_id: str | None = None
    after: tuple[str, str, str] | None = None
    limit: int = 50
    key: str | None = None
