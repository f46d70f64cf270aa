"""Cancel: ends a job in any active state and refunds it in full. A running handler notices by losing its lease.

When the session of a page ends, its queued jobs are cancelled too (see `sessions.py`).
"""

from __future__ import annotations

from typing import Final

from .commands import CancelJob, EndSession
from .finish import cancel_now, unchanged
from .outcomes import Finished, Refusal, SessionEnded
from .records import WAITING, PageSessions
from .refusals import no_job
from .rule import Audited, Needs, Rule
from .sessions import other_sessions, put_sessions, session_of
from .workspace import Workspace

LEFT: Final = "the page was left"
SILENT: Final = "the page was silent for too long"
"""Why the end of a session cancelled a job, as the job's owner reads it."""


def cancel(ws: Workspace, command: CancelJob) -> Finished | Refusal:
    job = ws.job(command.job_id)
    if job is None or command.account_id not in (None, job.account_id):
        return no_job(command.job_id)
    if job.place is None:
        return unchanged(ws, job)
    return cancel_now(ws, job, command.reason)


def end_session(ws: Workspace, command: EndSession) -> SessionEnded:
    """Cancels queued jobs. Times and places are checked again: the page may be back, a worker may have taken a job."""
    session = session_of(ws, command.account_id, command.session)
    if session is None or session.ends_at > ws.now:
        return SessionEnded(changed=False)
    cancelled = 0
    for job_id in command.jobs:
        job = ws.job(job_id)
        if job is None or (job.account_id, job.spec.session) != (command.account_id, session.name):
            continue
        if isinstance(job.place, WAITING):
            cancel_now(ws, job, LEFT if session.is_left else SILENT)
            cancelled += 1
    if not command.more:
        put_sessions(ws, command.account_id, other_sessions(ws, command.account_id, session.name))
    return SessionEnded(cancelled=cancelled)


def _needs(wanted: Needs, command: CancelJob) -> None:
    wanted.owned_jobs.add(command.job_id)


def _needs_session(wanted: Needs, command: EndSession) -> None:
    wanted.accounts.add(command.account_id)
    wanted.find(PageSessions, command.account_id)
    wanted.owned_jobs.update(command.jobs)


def _audit(command: CancelJob, _: Finished) -> Audited:
    return Audited("cancel", f"job {command.job_id}", {"reason": command.reason})


RULES = (
    Rule(CancelJob, decide=cancel, needs=_needs, refuses=("NOT_FOUND",), audit=_audit),
    Rule(EndSession, decide=end_session, needs=_needs_session),
)
