"""Sessions of pages: a visit goes on, is left, or ends."""

from __future__ import annotations

from typing import Literal

from .base import Command


class ChangeSession(Command, frozen=True):
    """Records that a page is open, which postpones the end of its session; or that it was left: then its queued jobs
    are cancelled after a grace, unless the page reports before that it is open."""

    account_id: str
    session: str
    to: Literal["open", "left"]


class HearSession(Command, frozen=True):
    """Records other evidence that the page of a session is open, such as a request about one of its jobs."""

    account_id: str
    session: str


class EndSession(Command, frozen=True):
    """Cancels these queued jobs of a session whose time is over. The session ends, unless `more` of its jobs follow."""

    account_id: str
    session: str
    jobs: tuple[str, ...] = ()
    more: bool = False
