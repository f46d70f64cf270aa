"""An account with its usage, its ledger, its reservations and its idempotency keys."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...core.ledger import spent_this_month, spent_today
from ...core.outcomes import AccountChanged
from ...core.policy import submits_this_hour
from ...core.quota import state_of
from ...core.records import Account, Entry, EntryKind, Key, KeyScope, Reservation, ReservationState
from .dates import moment, moment_if_any
from .files import FileView


class AccountView(Struct, frozen=True, kw_only=True):
    id: str
    plan: str
    balance: int
    active: int
    admitted: int
    parked: int
    submitted: int
    submits_this_hour: int
    spent_today: int
    spent_this_month: int
    active_job: str | None
    opened_at: datetime


def account_view(account: Account, now: int) -> AccountView:
    return AccountView(
        id=account.id,
        plan=account.plan,
        balance=account.balance,
        active=account.active,
        admitted=account.admitted,
        parked=account.parked,
        submitted=account.submitted,
        submits_this_hour=submits_this_hour(account, now),
        spent_today=spent_today(account, now),
        spent_this_month=spent_this_month(account, now),
        active_job=account.latest_job,
        opened_at=moment(account.opened_at),
    )


class Credited(Struct, frozen=True, kw_only=True):
    """What a grant or a correction led to.

    entry: the number of its ledger line.
    idempotent_hit: the key was used before, so nothing was added now; `entry` is the line that was written then.
    """

    account: str
    plan: str
    balance: int
    entry: int
    idempotent_hit: bool


def credited(outcome: AccountChanged) -> Credited:
    assert outcome.entry is not None, "every credit has its ledger line"
    return Credited(
        account=outcome.account.id,
        plan=outcome.account.plan,
        balance=outcome.account.balance,
        entry=outcome.entry,
        idempotent_hit=outcome.repeated,
    )


class EntryView(Struct, frozen=True, kw_only=True):
    """One ledger line."""

    number: int
    kind: EntryKind
    amount: int
    balance_after: int
    job_id: str | None
    reason: str | None
    at: datetime


def entry_view(entry: Entry) -> EntryView:
    return EntryView(
        number=entry.number,
        kind=entry.kind,
        amount=entry.amount,
        balance_after=entry.balance_after,
        job_id=entry.job_id,
        reason=entry.reason,
        at=moment(entry.at),
    )


class Hold(Struct, frozen=True, kw_only=True):
    """A quota reservation. Its state is the current one, even if no sweep has stored it yet. A list shows its
    `uploads`, which the job waits for."""

    id: str
    account: str
    state: ReservationState
    job_id: str | None
    created_at: datetime
    expires_at: datetime
    quota_warnings: tuple[str, ...] = ()
    uploads: tuple[FileView, ...] = ()


def hold_view(
    reservation: Reservation, now: int, warnings: tuple[str, ...] = (), uploads: tuple[FileView, ...] = ()
) -> Hold:
    return Hold(
        id=reservation.id,
        account=reservation.account_id,
        state=state_of(reservation, now),
        job_id=reservation.job_id,
        created_at=moment(reservation.created_at),
        expires_at=moment(reservation.expires_at),
        quota_warnings=warnings,
        uploads=uploads,
    )


class KeyView(Struct, frozen=True, kw_only=True):
    """An idempotency key and what it led to."""

    account: str
    scope: KeyScope
    key: str
    job_id: str | None
    batch_id: str | None
    created_at: datetime
    expires_at: datetime | None


def key_view(key: Key) -> KeyView:
    return KeyView(
        account=key.account_id,
        scope=key.scope,
        key=key.key,
        job_id=key.job_id,
        batch_id=key.batch_id,
        created_at=moment(key.created_at),
        expires_at=moment_if_any(key.expires_at),
    )
