"""Sessions of pages: a visit goes on, is left, or ends."""

from __future__ import annotations

from typing import Literal

from .base import Command


class ChangeSession(Command, frozen=True):
    """The page is open: whatever was to end its session waits. Or it was left: after a grace its queued jobs are
    cancelled, unless it says before that it is open."""

    account_id: str
    session: str
    to: Literal["open", "left"]


class HearSession(Command, frozen=True):
    """Something else shows that the page of a session is open, such as a request about one of its jobs."""

    account_id: str
    session: str


class EndSession(Command, frozen=True):
    """Cancels these queued jobs of a session whose time is over. It ends unless it has `more`, which come next."""

    account_id: str
    session: str
    jobs: tuple[str, ...] = ()
    more: bool = False
