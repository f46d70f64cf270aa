"""Sessions of pages: when nobody waits for a visit's jobs any more, those that are still queued are cancelled.

A page that is left reports that, and has a grace in which it may come back: on a phone, switching to another app looks
the same as leaving. A page that is killed reports nothing, so a session that once reported that it goes on also ends
when it is silent for too long. A session that never reported anything is not known here, and its jobs are left alone.
`cancel.py` ends sessions.
"""

from __future__ import annotations

from .commands import ChangeSession, HearSession
from .outcomes import Refusal, SessionChanged, SessionHeard
from .policy import MILLISECOND
from .records import PageSession, PageSessions
from .refusals import account_closed, no_account
from .rule import Needs, Rule
from .workspace import Workspace


def change_session(ws: Workspace, command: ChangeSession) -> SessionChanged | Refusal:
    """Opens or leaves a session. Leaving again does not postpone its end: a page may report it several times."""
    known = session_of(ws, command.account_id, command.session)
    if command.to == "open":
        return _changed(ws, command.account_id, _open(ws, command.session))
    if known is not None and known.is_left:
        return SessionChanged(command.account_id, known, changed=False)
    ends_at = ws.now + ws.policy.leave_grace_ms * MILLISECOND
    return _changed(ws, command.account_id, PageSession(command.session, ends_at, is_left=True))


def hear_session(ws: Workspace, command: HearSession) -> SessionHeard:
    return SessionHeard(is_heard(ws, command.account_id, command.session))


def is_heard(ws: Workspace, account_id: str, session: str) -> bool:
    """Renews a session, if it is known: a submit or another call shows that its page is open. Returns whether it is."""
    if session_of(ws, account_id, session) is None:
        return False
    put_sessions(ws, account_id, (*other_sessions(ws, account_id, session), _open(ws, session)))
    return True


def over(known: PageSessions | None, now: int) -> list[str]:
    """The sessions whose time is over."""
    return [] if known is None else [session.name for session in known.sessions if session.ends_at <= now]


def _changed(ws: Workspace, account_id: str, session: PageSession) -> SessionChanged | Refusal:
    account = ws.account(account_id)
    refusal = no_account(account_id) if account is None else account_closed(account)
    if refusal is not None:
        return refusal
    kept, most = other_sessions(ws, account_id, session.name), ws.policy.open_sessions
    if len(kept) >= most:
        return Refusal(
            "QUOTA_EXCEEDED",
            f"account {account_id} has {len(kept)} sessions open, and {most} are allowed; nothing was changed. Leave "
            "some of them, or raise the application's Limits.open_sessions.",
            details={"limit": most, "used": len(kept)},
        )
    put_sessions(ws, account_id, (*kept, session))
    return SessionChanged(account_id, session)


def _open(ws: Workspace, name: str) -> PageSession:
    return PageSession(name, ws.now + ws.policy.silent_session_ms * MILLISECOND)


def session_of(ws: Workspace, account_id: str, name: str) -> PageSession | None:
    return next((session for session in _sessions(ws, account_id) if session.name == name), None)


def other_sessions(ws: Workspace, account_id: str, name: str) -> tuple[PageSession, ...]:
    return tuple(session for session in _sessions(ws, account_id) if session.name != name)


def _sessions(ws: Workspace, account_id: str) -> tuple[PageSession, ...]:
    known = ws.find(PageSessions, account_id)
    return () if known is None else known.sessions


def put_sessions(ws: Workspace, account_id: str, sessions: tuple[PageSession, ...]) -> None:
    next_at = min((session.ends_at for session in sessions), default=0)
    record = PageSessions(account_id, next_at, sessions)
    if sessions:
        ws.put(record)
    else:
        ws.remove(record)


def _needs(wanted: Needs, command: ChangeSession | HearSession) -> None:
    wanted.accounts.add(command.account_id)
    wanted.find(PageSessions, command.account_id)


RULES = (
    Rule(ChangeSession, decide=change_session, needs=_needs, refuses=("ACCOUNT_CLOSED", "NOT_FOUND", "QUOTA_EXCEEDED")),
    Rule(HearSession, decide=hear_session, needs=_needs),
)
