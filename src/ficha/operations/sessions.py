"""Sessions of pages: a page reports that it is open or was left."""

from __future__ import annotations

from typing import Literal

from .. import validation as arg
from ..core.commands import ChangeSession, HearSession
from ..core.outcomes import SessionChanged, SessionHeard
from ..engine.views import JobView, SessionView, session_view
from ..store.base import GetPageSessions
from .base import Operations


class SessionOperations(Operations):
    async def stay_in_session(self, session: str, *, account: str) -> SessionView:
        """Records that the page of a session is open, which puts off the session's end. From now on its queued jobs are
        cancelled and refunded when nothing was heard of it for the application's `silent_session_s`."""
        return await self._change_session(session, account, "open")

    async def leave_session(self, session: str, *, account: str) -> SessionView:
        """Records that the page of a session was left. After the application's `leave_grace_s` its queued jobs are
        cancelled and refunded, unless before that the page reports that it is open, submits a job or follows one."""
        return await self._change_session(session, account, "left")

    async def follow_in_session(self, job: JobView, session: str | None) -> None:
        """Reopens a session that was left when its page asks about one of its jobs; else changes nothing."""
        if session is None or session != job.session:
            return
        known = await self.engine.read(GetPageSessions(job.account))
        if known is not None and any(one.name == session and one.is_left for one in known.sessions):
            await self._ask(HearSession(job.account, session), SessionHeard)

    async def _change_session(self, session: str, account: str, to: Literal["open", "left"]) -> SessionView:
        command = ChangeSession(arg.name(account, "an account"), arg.name(session, "a session"), to)
        changed = await self._ask(command, SessionChanged)
        return session_view(changed.account_id, changed.session)
