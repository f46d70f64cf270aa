"""Bulk acts: what an operator does to one job, done to all that a search finds.

One decision does the acts of a step and stores how far the whole act came. So the process that works on it may die at
any point: the next one continues where the last committed step ended. Each job's act is decided by the same rule as a
single act, and writes its own line in the audit log, in the name of the operator who began the bulk act.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from . import audit, cancel, dead, refunds
from .commands import (
    AdvanceBulkAct,
    BeginBulkAct,
    CancelJob,
    Command,
    Discard,
    HoldBulkAct,
    RefundJob,
    Requeue,
    StopBulkAct,
)
from .outcomes import BulkActChanged, BulkActHeld, Outcome, Refusal
from .policy import MILLISECOND
from .records import BulkAct, BulkFailure, BulkVerb, Job
from .rule import Audited, Needs, Rule
from .workspace import Workspace

FAILURES_KEPT: Final = 100
"""How many failed jobs an act lists, each with the reason."""
FAILURE_LENGTH: Final = 500
_RULES: Final[dict[type[Command], Rule[Any]]] = {
    rule.command: rule for module in (cancel, dead, refunds) for rule in module.RULES
}
_COMMANDS: Final[dict[BulkVerb, Callable[[BulkAct, Job, str], Command]]] = {
    "requeue": lambda act, job, new_id: Requeue(job.id, new_id, act.key_id),
    "discard": lambda act, job, new_id: Discard(job.id),
    "cancel": lambda act, job, new_id: CancelJob(job.id, reason=act.reason),
    # A job that cost less than the amount gets back what it cost.
    "refund": lambda act, job, new_id: RefundJob(
        job.id, act.reason, None if act.amount is None else min(act.amount, job.charged), act.share
    ),
}
"""The command that does each act to one job. If that command is refused, the act failed for the job."""
_UNCHANGED: Final = {
    "requeue": "it was requeued already",
    "discard": "it is not in the dead-letter list",
    "cancel": "it had ended already",
    "refund": "nothing was left to give back, or so much was given back before",
}
"""Why an act that is not refused changed nothing."""


def begin_bulk_act(ws: Workspace, command: BeginBulkAct) -> BulkActChanged | Refusal:
    if ws.find(BulkAct, command.act_id) is not None:
        return Refusal("INVALID_STATE", f"the bulk act {command.act_id} exists already; nothing was changed.")
    if command.total > (most := ws.policy.bulk_jobs):
        return Refusal(
            "TOO_LARGE",
            f"more than {most} jobs match, and one bulk act may change so many; nothing was changed. Search for fewer, "
            "by their time (`since:` and `until:`) for one, or raise the application's Limits.bulk_jobs.",
            details={"limit": most},
        )
    act = BulkAct(
        command.act_id,
        command.act,
        command.search,
        command.reason,
        command.actor,
        command.total,
        command.credits,
        started_at=ws.now,
        due_at=ws.now,
        before_id=command.before_id,
        floor_id=command.floor_id,
        key_id=command.key_id,
        amount=command.amount,
        share=command.share,
    ).due(ws.now)
    ws.put(act)
    return BulkActChanged(act)


def hold_bulk_act(ws: Workspace, command: HoldBulkAct) -> BulkActHeld:
    act = ws.find(BulkAct, command.act_id)
    if act is None or act.state != "running" or act.holdable_at() > ws.now:
        return BulkActHeld(None)
    act = replace(act, holds=act.holds + 1).due(ws.now + command.hold_ms * MILLISECOND)
    ws.put(act)
    return BulkActHeld(act)


def advance_bulk_act(ws: Workspace, command: AdvanceBulkAct) -> BulkActHeld:
    """Does a step. A caller whose hold another process took over, or whose act was stopped, changes nothing."""
    act = ws.find(BulkAct, command.act_id)
    if act is None or act.state != "running" or act.holds != command.hold:
        return BulkActHeld(None)
    if act.before_id != command.from_id:
        return BulkActHeld(act)
    failures = [] if command.broken is None else [BulkFailure(command.broken[0], "INTERNAL", _cut(command.broken[1]))]
    done = 0
    for job_id, new_id in command.jobs:
        job = ws.job(job_id)
        if job is None or job.created_at > act.started_at:
            continue
        failure = _do(ws, act, job, new_id)
        if failure is None:
            done += 1
        else:
            failures.append(failure)
    act = replace(
        act,
        done=act.done + done,
        failed=act.failed + len(failures),
        failures=(*act.failures, *failures)[:FAILURES_KEPT],
    ).due(ws.now + command.hold_ms * MILLISECOND)
    if command.before_id is None:
        act = replace(act, state="done", ended_at=ws.now)
    else:
        act = replace(act, before_id=command.before_id)
    ws.put(act)
    return BulkActHeld(act)


def _do(ws: Workspace, act: BulkAct, job: Job, new_id: str | None) -> BulkFailure | None:
    """Does the act to one job. Returns the failure, if the act could not be done."""
    command = _COMMANDS[act.act](act, job, new_id or "")
    rule = _RULES[type(command)]
    outcome: Outcome = rule.decide(ws, command)
    if isinstance(outcome, Refusal):
        return BulkFailure(job.id, outcome.code, _cut(outcome.message))
    if not getattr(outcome, "changed", True):
        return BulkFailure(job.id, "INVALID_STATE", f"{_UNCHANGED[act.act]}; nothing was changed")
    audit.record(ws, act.actor, rule, command, outcome, reason=act.reason, bulk_act=act.id)
    return None


def _cut(text: str) -> str:
    return text if len(text) <= FAILURE_LENGTH else text[:FAILURE_LENGTH] + "…"


def stop_bulk_act(ws: Workspace, command: StopBulkAct) -> BulkActChanged | Refusal:
    act = ws.find(BulkAct, command.act_id)
    if act is None:
        return Refusal("NOT_FOUND", f"there is no bulk act {command.act_id}.")
    if act.state != "running":
        return BulkActChanged(act, changed=False)
    act = replace(act, state="stopped", ended_at=ws.now)
    ws.put(act)
    return BulkActChanged(act)


def _needs_act(wanted: Needs, command: BeginBulkAct | HoldBulkAct | StopBulkAct) -> None:
    wanted.find(BulkAct, command.act_id)


def _needs_jobs(wanted: Needs, command: AdvanceBulkAct) -> None:
    wanted.find(BulkAct, command.act_id)
    for job_id, new_id in command.jobs:
        wanted.owned_jobs.add(job_id)
        if new_id is not None:
            wanted.payloads.add(job_id)


def _audit_begin(command: BeginBulkAct, _: BulkActChanged) -> Audited:
    told = {"act": command.act, "search": command.search, "reason": command.reason, "share": command.share}
    counted = {"total": command.total, "credits": command.credits, "amount": command.amount}
    return Audited("begin_bulk_act", f"bulk act {command.act_id}", told | counted)


def _audit_stop(command: StopBulkAct, outcome: BulkActChanged) -> Audited:
    told = {"act": outcome.act.act, "done": outcome.act.done, "failed": outcome.act.failed}
    return Audited("stop_bulk_act", f"bulk act {command.act_id}", told)


RULES = (
    Rule(
        BeginBulkAct,
        decide=begin_bulk_act,
        needs=_needs_act,
        refuses=("INVALID_STATE", "TOO_LARGE"),
        audit=_audit_begin,
        locks_account=False,
    ),
    Rule(HoldBulkAct, decide=hold_bulk_act, needs=_needs_act, locks_account=False),
    Rule(AdvanceBulkAct, decide=advance_bulk_act, needs=_needs_jobs),
    Rule(
        StopBulkAct,
        decide=stop_bulk_act,
        needs=_needs_act,
        refuses=("NOT_FOUND",),
        audit=_audit_stop,
        locks_account=False,
    ),
)
