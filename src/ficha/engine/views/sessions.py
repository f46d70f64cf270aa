"""Sessions of pages."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from ...core.records import PageSession
from .dates import moment


class SessionView(Struct, frozen=True, kw_only=True):
    """A page session that was reported open, or left.

    ends_at: when its queued jobs are cancelled and refunded, unless it is reported open before.
    """

    account: str
    session: str
    state: Literal["open", "left"]
    ends_at: datetime


def session_view(account: str, session: PageSession) -> SessionView:
    return SessionView(
        account=account,
        session=session.name,
        state="left" if session.is_left else "open",
        ends_at=moment(session.ends_at),
    )
