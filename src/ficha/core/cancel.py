"""Cancel: ends a job in any active state and refunds it in full. A running handler notices by losing its lease.

When the session of a page ends, its queued jobs are cancelled too (see `sessions.py`).
"""

from __future__ import annotations

from typing import Final

from .commands import CancelJob, EndSession
from .finish import cancel_now, unchanged
from .outcomes import Finished, Refusal, SessionEnded
from .records import WAITING, Job, PageSessions
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
    ended = []
    for job_id in (job.id, *command.parts):
        # Read in its turn: the end of one part may have promoted the next.
        part = ws.job(job_id)
        if part is not None and part.place is not None and (part.id == job.id or _is_beside(part, job)):
            ended.append(cancel_now(ws, part, command.reason))
    if not ended:
        return unchanged(ws, job)
    now = ws.job(job.id)
    assert now is not None
    return Finished(now, True, sum(end.refunded for end in ended), ws.owner(job).balance)


def _is_beside(part: Job, job: Job) -> bool:
    """Whether it is another part of the job's request."""
    is_same = job.spec.part_of is not None and part.spec.part_of == job.spec.part_of
    return is_same and part.account_id == job.account_id


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
    wanted.owned_jobs.update((command.job_id, *command.parts))


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
