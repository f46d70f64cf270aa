"""Cancel: ends a job in any active state and refunds it in full. A running handler notices by losing its lease."""

from __future__ import annotations

from .commands import CancelJob
from .finish import cancel_now, unchanged
from .outcomes import Finished, Refusal
from .refusals import no_job
from .rule import Audited, Needs, Rule
from .workspace import Workspace


def cancel(ws: Workspace, command: CancelJob) -> Finished | Refusal:
    job = ws.job(command.job_id)
    if job is None or command.account_id not in (None, job.account_id):
        return no_job(command.job_id)
    if job.place is None:
        return unchanged(ws, job)
    return cancel_now(ws, job, command.reason)


def _needs(wanted: Needs, command: CancelJob) -> None:
    wanted.owned_jobs.add(command.job_id)


def _audit(command: CancelJob, _: Finished) -> Audited:
    return Audited("cancel", f"job {command.job_id}", {"reason": command.reason})


RULES = (Rule(CancelJob, decide=cancel, needs=_needs, refuses=("NOT_FOUND",), audit=_audit),)
