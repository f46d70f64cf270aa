"""Sessions of pages: a page says that it is open, or that it was left."""

from __future__ import annotations

from .. import validation as arg
from ..engine.views import SessionView
from .effects import Flow
from .operation import operation
from .sending import RequestMethods, segment


class SessionMethods(RequestMethods):
    @operation
    def stay_in_session(self, session: str, *, account: str | None = None) -> Flow[SessionView]:
        """Says that the page of a session is open, which revokes that it was left. If the page then sends nothing for
        the application's `silent_session_s`, the session's queued jobs are cancelled and refunded."""
        return self._told(session, "stay", account)

    @operation
    def leave_session(self, session: str, *, account: str | None = None) -> Flow[SessionView]:
        """Says that the page of a session was left. After the application's `leave_grace_s` its queued jobs are
        cancelled and refunded, unless the page comes back before."""
        return self._told(session, "leave", account)

    def _told(self, session: str, what: str, account: str | None) -> Flow[SessionView]:
        path = f"/api/sessions/{segment(arg.name(session, 'a session'))}/{what}"
        return self.post(path, SessionView, harmless=True, query={"account": account})
