"""Sessions of pages: visits that report that they go on, or that they are over."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from .keyed import Keyed


class PageSession(Struct, frozen=True, gc=False):
    """A visit that has reported `stay` or `leave`. Its jobs have its `name` as their `session`."""

    name: str
    ends_at: int
    """When its queued jobs are cancelled, unless the page reports before that the visit goes on."""
    is_left: bool = False
    """Whether the page was left; otherwise it ends because it is silent."""


class PageSessions(Keyed, frozen=True, tag=True):
    """The sessions of one account. One that ends is removed; an account without any has no record."""

    belongs_to: ClassVar[str | None] = "account_id"

    account_id: str
    next_at: int
    """When the first of them ends."""
    sessions: tuple[PageSession, ...]
