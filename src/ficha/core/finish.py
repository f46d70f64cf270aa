"""Finish: the only way for a run to end its job. A second, late or concurrent finish changes nothing."""

from __future__ import annotations

from typing import Any, assert_never

from msgspec.structs import replace

from . import ledger, states
from .commands import (
    AcceptedByProvider,
    CancelledByHandler,
    Completed,
    Ending,
    Failed,
    Finish,
    Interrupted,
    RetryLater,
    TimedOut,
)
from .outcomes import Finished, Refusal
from .policy import MAX_PROVIDER_COST, MILLION, MILLISECOND, TELL_PROVIDER, aged_rank, backoff_ms
from .promote import promote
from .records import HELD, Awaiting, Content, Job, Leased, Parked, PendingHook, Ready
from .refusals import lease_lost, no_job
from .rule import Audited, Needs, Rule
from .suspects import runs_alone
from .workspace import Workspace


def finish(ws: Workspace, command: Finish) -> Finished | Refusal:
    job = ws.job(command.job_id)
    if job is None or command.account_id not in (None, job.account_id):
        return no_job(command.job_id)
    if command.attempt is not None and command.attempt != job.attempts:
        _keep_late_word(ws, job, command.ending)
        return unchanged(ws, job)
    if command.epoch is not None and command.epoch != job.epoch:
        _keep_late_word(ws, job, command.ending)
        return lease_lost(job, command.epoch)
    if job.place is None:
        _keep_late_word(ws, job, command.ending)
        return unchanged(ws, job)
    if not isinstance(job.place, HELD):
        _keep_late_word(ws, job, command.ending)
        return lease_lost(job, command.epoch)
    if (cost := _cost_of(command.ending)) is not None:
        # Each run of a job may have cost something, so the costs add up.
        job = replace(job, provider_cost=min((job.provider_cost or 0) + cost, MAX_PROVIDER_COST * MILLION))
    match command.ending:
        case Completed():
            return _complete(ws, job, command.ending)
        case Failed(error, final, for_user, traceback):
            wait_ms = backoff_ms(job, command.jitter)
            if final or job.attempts + 1 >= job.spec.max_attempts or _is_too_late(ws, job, wait_ms):
                return fail(
                    ws, job, error, dead=not final, counts=True, for_user=for_user, **_if_any(traceback=traceback)
                )
            told = _if_any(user_error=error if for_user else None, traceback=traceback)
            return _retry(ws, job, wait_ms, failed=True, error=error, **told)
        case RetryLater(after_ms, reason, unsent):
            if _is_too_late(ws, job, after_ms):
                words = f"asked to be retried later than {_hours(ws):g} hours after its first start"
                return fail(ws, job, words, dead=True, for_user=True)
            return _retry(ws, job, after_ms, failed=False, error=reason, **({"unsent": True} if unsent else {}))
        case CancelledByHandler(reason):
            return cancel_now(ws, job, reason)
        case AcceptedByProvider():
            return _accept(ws, job, command.ending)
        case Interrupted(reason, lost):
            return take_back(ws, job, reason, lost=lost, is_its_own=lost)
        case TimedOut():
            return time_out(ws, job)
        case _ as never:
            assert_never(never)


def _cost_of(ending: Ending) -> int | None:
    return ending.provider_cost if isinstance(ending, Completed | Failed) else None


def _keep_late_word(ws: Workspace, job: Job, ending: Ending) -> None:
    """Records a finish that arrived too late. It changes nothing, except that it sets the provider's cost if that was
    unknown. The first late finish is kept in the job's history, cut to a limit. Later ones are only counted, so a
    worker that repeats itself fills no table. If the job's work was removed, none is kept."""
    cost = _cost_of(ending) if job.provider_cost is None else job.provider_cost
    job = replace(job, late_finishes=job.late_finishes + 1, provider_cost=cost)
    if job.late_finishes > 1 or job.removed_at is not None:
        ws.put_job(job)
        return
    most = ws.policy.late_bytes
    data: dict[str, Any] = {"ending": type(ending).__name__}
    match ending:
        case Completed(result):
            data["result"] = _cut(result, most)
        case Failed(error, _, for_user, traceback):
            told = _if_any(error=error, user_error=error if for_user else None, traceback=traceback)
            data |= {name: _cut(text, most // len(told)) for name, text in told.items()}
    job = replace(job, events=job.events + 1)
    ws.put_job(job)
    ws.add_event(job, "late", **data)


def _cut(text: str, most: int) -> str:
    """Returns the text in at most `most` bytes; a longer one is cut and ends with "…"."""
    encoded = text.encode()
    return text if len(encoded) <= most else encoded[: max(0, most - 3)].decode("utf-8", "ignore") + "…"


def unchanged(ws: Workspace, job: Job) -> Finished:
    """Returns the outcome of a finish that changed nothing."""
    return Finished(job, changed=False, refunded=job.refunded, new_balance=ws.owner(job).balance)


def _complete(ws: Workspace, job: Job, ending: Completed) -> Finished:
    if job.status == "starting":
        job = states.started(job, ws.now)
        ws.add_event(job, "started", epoch=job.epoch)
    # A wrong count must not fail a job that is done: 0 of 0 counts as nothing delivered.
    of = max(1, job.spec.units if ending.of is None else ending.of)
    delivered = of if ending.delivered is None else max(0, min(ending.delivered, of))
    job = states.completed(job, delivered, ws.now)
    ws.put_job(job)
    ws.put_result(job.id, ending.result_json)
    refunded = ledger.refund(ws, job, ledger.undelivered(job.charged, delivered, of), "partial")
    if delivered == of:
        ws.add_event(job, "completed")
        if job.spec.content_hash is not None:
            ws.put_content(Content(job.spec.tool, job.spec.content_hash, job.id, ending.result_json))
    else:
        ws.add_event(job, "completed", delivered=delivered, of=of, refunded=refunded)
    return _ended(ws, job, refunded)


def reuse(ws: Workspace, job: Job, result: str) -> Finished:
    """Ends a waiting job with the result of an equal one, and refunds it in full."""
    job = states.reused(job, ws.now)
    ws.put_job(job)
    ws.put_result(job.id, result)
    refunded = ledger.refund(ws, job, job.charged, "reused")
    ws.add_event(job, "reused", refunded=refunded)
    return _ended(ws, job, refunded)


def fail(
    ws: Workspace, job: Job, error: str, *, dead: bool, for_user: bool, counts: bool = False, **more: Any
) -> Finished:
    """Ends a job as failed and refunds it in full. `more` goes into the event."""
    job = states.failed(job, error, ws.now, dead=dead, counts=counts, for_user=for_user)
    ws.put_job(job)
    refunded = ledger.refund(ws, job, job.charged, "failed")
    more |= _if_any(user_error=job.user_error)
    ws.add_event(job, "failed", error=error, refunded=refunded, dead=dead, **more)
    return _ended(ws, job, refunded)


def time_out(ws: Workspace, job: Job) -> Finished:
    """Ends a job that has reached its time limit."""
    return fail(ws, job, f"timed out after {job.spec.timeout_ms / 1000:g} s", dead=True, for_user=True)


def cancel_now(ws: Workspace, job: Job, reason: str | None) -> Finished:
    """Ends a job as cancelled and refunds it in full."""
    tell_provider(ws, job)
    job = states.cancelled(job, reason, ws.now)
    ws.put_job(job)
    refunded = ledger.refund(ws, job, job.charged, "cancelled")
    ws.add_event(job, "cancelled", reason=reason, refunded=refunded)
    return _ended(ws, job, refunded)


def tell_provider(ws: Workspace, job: Job) -> None:
    """Adds the hook that cancels the work at the provider, for a job that ends while its provider has it."""
    if isinstance(job.place, Awaiting) and job.spec.tool in ws.policy.provider_tools:
        ws.put_hook(PendingHook(TELL_PROVIDER, job.id, ws.now))


def _ended(ws: Workspace, job: Job, refunded: int) -> Finished:
    promote(ws, job.account_id)
    ended = ws.job(job.id)
    assert ended is not None
    return Finished(ended, True, refunded, ws.owner(job).balance)


def _is_too_late(ws: Workspace, job: Job, after_ms: int) -> bool:
    """Whether a retry that begins so much later would be ended at once, as too long after the job's first start."""
    due_at = ws.now + max(1, after_ms) * MILLISECOND
    return job.started_at is not None and due_at - job.started_at >= ws.policy.max_age_ms * MILLISECOND


def _retry(ws: Workspace, job: Job, after_ms: int, *, failed: bool, error: str | None, **more: Any) -> Finished:
    due_at = ws.now + max(1, after_ms) * MILLISECOND
    rank, _ = aged_rank(job, ws.plan(ws.owner(job)), ws.now)
    job = states.retried(job, Parked(rank, due_at), failed=failed)
    ws.put_job(job)
    ws.add_event(job, "retried", error=error, attempts=job.attempts, due_at=due_at, **more)
    promote(ws, job.account_id)
    return Finished(job, True, 0, ws.owner(job).balance)


def _accept(ws: Workspace, job: Job, ending: AcceptedByProvider) -> Finished | Refusal:
    if not isinstance(job.place, Leased):
        return unchanged(ws, job)
    job = states.accepted(job, job.place, ending.ref, ws.now, ending.poll_ms)
    ws.put_job(job)
    ws.add_event(job, "accepted", ref=ending.ref)
    return Finished(job, True, 0, ws.owner(job).balance)


def take_back(ws: Workspace, job: Job, reason: str, *, lost: bool, is_its_own: bool = False) -> Finished:
    """Returns a job whose run was interrupted to the queue. After too many lost runs the job is poison.

    is_its_own: the worker lives, and reports that a process is dead which ran this job alone.
    """
    lease = job.place
    if not isinstance(lease, Leased):
        return unchanged(ws, job)
    if lost and _is_poison(ws, job, is_its_own):
        job = replace(job, recoveries=job.recoveries + 1)
        words = f"its run was lost with its process, and is not repeated (max_recoveries=0): {reason}"
        if ws.policy.recoveries_of(job.spec.tool) > 0:
            lost_runs = f"{job.recoveries} runs were lost with their process"
            words = f"{lost_runs}, so the job is taken for poison; the last: {reason}"
        return fail(ws, job, words, dead=True, for_user=False)
    job = states.taken_back(job, Ready(*aged_rank(job, ws.plan(ws.owner(job)), ws.now)), lost=lost)
    ws.put_job(job)
    said: dict[str, Any] = {"worker": lease.worker, "epoch": job.epoch, "recoveries": job.recoveries, "reason": reason}
    if lost:
        ws.add_event(job, "recovered", **said)
    else:
        ws.add_event(job, "returned", **said)
    return Finished(job, True, 0, ws.owner(job).balance)


def _is_poison(ws: Workspace, job: Job, is_its_own: bool) -> bool:
    """Whether a job whose run was lost is not run again. Jobs that were lost together may be each other's victims."""
    most = ws.policy.recoveries_of(job.spec.tool)
    if most == 0 or (is_its_own and job.recoveries + 1 >= most):
        return True
    return not is_its_own and runs_alone(ws.policy, job.spec.tool, job.recoveries)


def _if_any(**told: str | None) -> dict[str, str]:
    """Returns the fields that are not None: an event's data has no empty fields."""
    return {name: text for name, text in told.items() if text is not None}


def _hours(ws: Workspace) -> float:
    return ws.policy.max_age_ms / 3_600_000


def _needs(wanted: Needs, command: Finish) -> None:
    wanted.owned_jobs.add(command.job_id)


def _audit(command: Finish, _: Finished) -> Audited:
    return Audited("finish", f"job {command.job_id}", {"ending": type(command.ending).__name__})


RULES = (Rule(Finish, decide=finish, needs=_needs, refuses=("LEASE_LOST", "NOT_FOUND"), audit=_audit),)
