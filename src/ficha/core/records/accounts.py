"""Accounts and their money: the ledger's entries, idempotency keys, reservations."""

from __future__ import annotations

from typing import Literal

from .base import Record

EntryKind = Literal["grant", "adjust", "charge", "refund"]
ReservationState = Literal["active", "consumed", "expired", "released"]
KeyScope = Literal["submit", "grant"]
KeyName = tuple[str, KeyScope, str]
"""An account, a scope and the caller's key."""


class Account(Record, frozen=True):
    """Who pays. `balance` is always the sum of the account's entries."""

    id: str
    plan: str
    opened_at: int
    balance: int = 0
    active: int = 0
    """Jobs that have not ended."""
    admitted: int = 0
    """Active jobs that are ready, leased or with a provider: what the plan's `max_running` limits."""
    parked: int = 0
    """Active jobs that wait only for the account's own concurrency."""
    reserved: int = 0
    """Reservations whose state is active, including expired ones that were not swept yet."""
    submitted: int = 0
    """Jobs ever submitted; zero means that the next one is the first."""
    latest_job: str | None = None
    """The job submitted last, while it is active."""
    hour_at: int = 0
    hour_submits: int = 0
    day_at: int = 0
    day_spent: int = 0
    month_at: int = 0
    month_spent: int = 0
    entries: int = 0
    """Ledger entries so far; the next one gets this number plus one."""


class AccountRows(Record, frozen=True):
    """What an account's counters have to agree with, counted from the rows themselves."""

    account_id: str
    jobs: int = 0
    active: int = 0
    admitted: int = 0
    parked: int = 0
    reserved: int = 0
    files: int = 0
    size: int = 0
    names_ended_job: bool = False
    """Whether `latest_job` of the account is a job that is not active."""


class Entry(Record, frozen=True):
    """One immutable ledger line. `number` counts the account's entries from one."""

    account_id: str
    number: int
    kind: EntryKind
    amount: int
    balance_after: int
    at: int
    job_id: str | None = None
    reason: str | None = None


class Key(Record, frozen=True):
    """An idempotency key: the caller's own name for a submit or a grant, and its outcome."""

    account_id: str
    scope: KeyScope
    key: str
    fingerprint: str
    created_at: int
    expires_at: int | None
    job_id: str | None = None
    """The (first) job of the submit."""
    batch_id: str | None = None
    jobs: int = 1
    cost: int = 0
    """How many jobs the submit created, and what they cost together."""
    entry: int | None = None
    """The number of the ledger entry that a grant wrote."""


class Reservation(Record, frozen=True):
    """A quota slot held before the job exists. It does not count after `expires_at`, even if its state is active."""

    id: str
    account_id: str
    state: ReservationState
    created_at: int
    expires_at: int
    job_id: str | None = None
