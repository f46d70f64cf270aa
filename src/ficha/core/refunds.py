"""An operator's refund: what a job that ended was charged goes back to its account, whole or in part.

A job has one refund line, whoever writes it: its end (failed, cancelled, partly delivered) or an operator. So a job
that was partly refunded cannot be refunded again; the rest is a correction of the balance.
"""

from __future__ import annotations

import math
from fractions import Fraction

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
    wanted = part_of(job.charged, command.amount, command.share)
    if left == 0 or job.refunded == wanted:
        # It was free, or its end or an earlier call has refunded all of it, or as much as this one asks for.
        return unchanged(ws, job)
    if job.refunded:
        return Refusal(
            "INVALID_STATE",
            f"job {job.id} was charged {job.charged} credits and {job.refunded} of them were refunded already; a job "
            f"is refunded once, so nothing was changed. Give the other {left} back with adjust.",
            details={"charged": job.charged, "refunded": job.refunded, "left": left},
        )
    if wanted > left:
        return Refusal(
            "INVALID_STATE",
            f"job {job.id} was charged {job.charged} credits, so {wanted} cannot be given back; nothing was changed. "
            f"Refund at most {left}.",
            details={"charged": job.charged, "refunded": 0, "left": left},
        )
    refunded = ledger.refund(ws, job, wanted, command.reason)
    job = replace(job, refunded=refunded, events=job.events + 1)
    ws.put_job(job)
    ws.add_event(job, "refunded", refunded=refunded)
    return Finished(job, changed=True, refunded=refunded, new_balance=ws.owner(job).balance)


def part_of(charged: int, amount: int | None, share: str | None) -> int:
    """How much of a charge is asked for: all of it, an amount, or a share, rounded up to a whole credit."""
    if amount is not None:
        return amount
    return charged if share is None else math.ceil(charged * Fraction(share))


def most(jobs: int, charged: int, amount: int | None, share: str | None) -> int:
    """The most that comes back for so many jobs that were charged so much together, however it is spread over them."""
    if amount is not None:
        return min(charged, jobs * amount)
    # Rounding up adds less than a credit to each job.
    return charged if share is None else min(charged, math.floor(charged * Fraction(share) + jobs))


def _needs(wanted: Needs, command: RefundJob) -> None:
    wanted.owned_jobs.add(command.job_id)


def _audit(command: RefundJob, _: Finished) -> Audited:
    return Audited(
        "refund", f"job {command.job_id}", {"reason": command.reason, "amount": command.amount, "share": command.share}
    )


RULES = (Rule(RefundJob, decide=refund_job, needs=_needs, refuses=("INVALID_STATE", "NOT_FOUND"), audit=_audit),)
