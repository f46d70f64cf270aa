"""An operator's refund: what a job that ended was charged goes back to its account.

A job has one refund line, whoever writes it: its end (failed, cancelled, partly delivered) or an operator. So a job
that was partly refunded when it ended cannot be refunded again; the rest is a correction of the balance.
"""

from __future__ import annotations

from msgspec.structs import replace

from . import ledger
from .commands import RefundJob
from .finish import unchanged
from .outcomes import Finished, Refusal
from .refusals import no_job
from .rule import Audited, Needs, Rule
from .workspace import Workspace


def refund_job(ws: Workspace, command: RefundJob) -> Finished | Refusal:
    job = ws.job(command.job_id)
    if job is None:
        return no_job(command.job_id)
    if job.place is not None:
        return Refusal(
            "INVALID_STATE",
            f"job {job.id} is {job.status}; nothing was changed. Cancel it, which refunds it, or wait for its end.",
            details={"status": job.status},
        )
    left = job.charged - job.refunded
    if left == 0:
        # It was free, or its end or an earlier call has refunded all of it.
        return unchanged(ws, job)
    if job.refunded:
        return Refusal(
            "INVALID_STATE",
            f"job {job.id} was charged {job.charged} credits and {job.refunded} of them were refunded when it ended; a "
            f"job is refunded once, so nothing was changed. Give the other {left} back with adjust.",
            details={"charged": job.charged, "refunded": job.refunded, "left": left},
        )
    refunded = ledger.refund(ws, job, left, command.reason)
    job = replace(job, refunded=refunded, events=job.events + 1)
    ws.put_job(job)
    ws.add_event(job, "refunded", refunded=refunded)
    return Finished(job, changed=True, refunded=refunded, new_balance=ws.owner(job).balance)


def _needs(wanted: Needs, command: RefundJob) -> None:
    wanted.owned_jobs.add(command.job_id)


def _audit(command: RefundJob, _: Finished) -> Audited:
    return Audited("refund", f"job {command.job_id}", {"reason": command.reason})


RULES = (Rule(RefundJob, decide=refund_job, needs=_needs, refuses=("INVALID_STATE", "NOT_FOUND"), audit=_audit),)
