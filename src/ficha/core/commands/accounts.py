"""Accounts, their plans and credits, and the idempotency keys of their callers."""

from __future__ import annotations

from typing import Literal

from ..records import KeyScope
from .base import Command


class OpenAccount(Command, frozen=True):
    """Opens an account. With `exist_ok`, one that is open already stays as it is, its plan and balance included."""

    account_id: str
    plan: str
    credits: int = 0
    reason: str = "opening balance"
    exist_ok: bool = False


class ChangePlan(Command, frozen=True):
    account_id: str
    plan: str


class Credit(Command, frozen=True):
    """Adds to a balance (`grant`) or corrects it, up or down (`adjust`). A repeated `key` changes nothing."""

    account_id: str
    amount: int
    kind: Literal["grant", "adjust"]
    reason: str | None = None
    key: str | None = None


class RecountAccount(Command, frozen=True):
    """Puts an account's counters right where they disagree with its rows. Money is never changed."""

    account_id: str


class ForgetKey(Command, frozen=True):
    account_id: str
    scope: KeyScope
    key: str
