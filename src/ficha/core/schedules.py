"""Schedules: recurring jobs, each slot fired exactly once.

Which slots are due, and which of the missed ones are fired, is computed from the clock alone (`due`). One decision
settles a slot and submits its job. A refusal settles the slot too: it is recorded, and the next slot fires as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from . import audit
from .commands import DeclareSchedule, FireSchedule, PauseSchedule, RunSchedule, Submit
from .cron_slots import cron_problem, next_slot
from .outcomes import Refusal, ScheduleChanged, ScheduleFired, Submitted
from .records import Account, Schedule
from .rule import Audited, Needs, Rule
from .submit import RULES as SUBMIT_RULES
from .submit import submit
from .workspace import Workspace

Missed = Literal["skip", "once", "all"]
FREE: Final = "ficha:schedules"
"""The id of the account that owns the jobs of free schedules, and the name of its plan, which has no limits."""
COUNTED: Final = 1_000
"""How many missed slots are counted at most: the newest ones."""
_MESSAGE_LENGTH: Final = 500
_SUBMIT: Final = next(rule for rule in SUBMIT_RULES if rule.command is Submit)


class DuePlan(Struct, frozen=True):
    """What becomes of the slots that are due: those to fire, oldest first, how many others are passed over, and the
    newest of all."""

    fired: tuple[int, ...]
    passed: int
    newest: int | None


def due(slots: Sequence[int], now: int, missed: Missed, late_us: int, most: int) -> DuePlan:
    """What becomes of slots that are due, given oldest first.

    skip: the newest is fired unless it is late; all others are passed over. once: the newest is fired, however late.
    all: each is fired, but no more than the newest `most`.
    """
    if not slots:
        return DuePlan((), 0, None)
    fired = slots[-most:] if missed == "all" else slots[-1:]
    if missed == "skip" and now - slots[-1] >= late_us:
        fired = ()
    return DuePlan(tuple(fired), len(slots) - len(fired), slots[-1])


def is_unfired(schedule: Schedule, until_at: int) -> bool:
    """Whether a slot of the schedule had come by then, and nobody has settled it: no live process declares it."""
    if schedule.paused or cron_problem(schedule.cron, schedule.tz) is not None:
        return False
    following = next_slot(schedule.cron, schedule.tz, schedule.slot_at)
    return following is not None and following <= until_at


def declare_schedule(ws: Workspace, command: DeclareSchedule) -> ScheduleChanged:
    known = ws.find(Schedule, command.name)
    terms = {"cron": command.cron, "tz": command.tz, "tool": command.tool, "account_id": command.payer}
    if known is None:
        schedule = Schedule(command.name, **terms, slot_at=ws.now)  # type: ignore[arg-type]
    else:
        has_other_times = (known.cron, known.tz) != (command.cron, command.tz)
        schedule = replace(known, **terms, slot_at=max(known.slot_at, ws.now) if has_other_times else known.slot_at)
    if command.payer is None and ws.account(FREE) is None:
        ws.put_account(Account(FREE, FREE, ws.now))
    if schedule == known:
        return ScheduleChanged(schedule, changed=False)
    ws.put(schedule)
    return ScheduleChanged(schedule)


def pause_schedule(ws: Workspace, command: PauseSchedule) -> ScheduleChanged | Refusal:
    known = ws.find(Schedule, command.schedule)
    if known is None:
        return no_schedule(command.schedule)
    if known.paused is command.paused:
        return ScheduleChanged(known, changed=False)
    schedule = replace(known, paused=command.paused, slot_at=max(known.slot_at, ws.now))
    ws.put(schedule)
    return ScheduleChanged(schedule)


def fire_schedule(ws: Workspace, command: FireSchedule) -> ScheduleFired:
    known = ws.find(Schedule, command.name)
    if known is None or known.paused or known.slot_at != command.from_at or command.slot_at > ws.now:
        return ScheduleFired(known, changed=False)
    if (known.cron, known.tz) != (command.cron, command.tz):
        return ScheduleFired(known, changed=False)
    assert command.slot_at > command.from_at, f"the slots of schedule {command.name} go back"
    schedule = replace(known, slot_at=command.slot_at, missed=known.missed + command.passed)
    if command.passed:
        audit.record_of_system(ws, "schedule_missed", f"schedule {command.name}", slots=command.passed)
    if command.submit is not None:
        # A refusal of the submit is recorded in the schedule; the firing itself is not refused.
        outcome = _SUBMIT.decide(ws, command.submit)
        if isinstance(outcome, Refusal):
            schedule = _refused(ws, schedule, command.slot_at, outcome.code, outcome.message)
        else:
            assert isinstance(outcome, Submitted)
            schedule = _fired(ws, schedule, command.slot_at, outcome)
        ws.put(schedule)
        return ScheduleFired(schedule, outcome if isinstance(outcome, Submitted) else None)
    if command.code is not None:
        schedule = _refused(ws, schedule, command.slot_at, command.code, command.message or "")
    ws.put(schedule)
    return ScheduleFired(schedule)


def run_schedule(ws: Workspace, command: RunSchedule) -> ScheduleFired | Refusal:
    known = ws.find(Schedule, command.schedule)
    if known is None:
        return no_schedule(command.schedule)
    outcome = submit(ws, command.submit)
    if isinstance(outcome, Refusal):
        return outcome
    schedule = known if outcome.idempotent_hit else _fired(ws, known, None, outcome)
    ws.put(schedule)
    return ScheduleFired(schedule, outcome, changed=not outcome.idempotent_hit)


def no_schedule(name: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no schedule {name!r}; nothing was changed.")


def _fired(ws: Workspace, schedule: Schedule, slot_at: int | None, outcome: Submitted) -> Schedule:
    return replace(
        schedule,
        fired=schedule.fired + 1,
        last_at=ws.now,
        last_slot_at=slot_at,
        last_job_id=outcome.job_id,
        last_code=None,
        last_message=None,
    )


def _refused(ws: Workspace, schedule: Schedule, slot_at: int, code: str, message: str) -> Schedule:
    told = message if len(message) <= _MESSAGE_LENGTH else message[:_MESSAGE_LENGTH] + "…"
    audit.record_of_system(ws, "schedule_refused", f"schedule {schedule.name}", code=code, message=told)
    return replace(
        schedule,
        refused=schedule.refused + 1,
        last_at=ws.now,
        last_slot_at=slot_at,
        last_job_id=None,
        last_code=code,
        last_message=told,
    )


def _needs_declared(wanted: Needs, command: DeclareSchedule) -> None:
    wanted.find(Schedule, command.name)
    if command.payer is None:
        wanted.accounts.add(FREE)


def _needs_named(wanted: Needs, command: PauseSchedule) -> None:
    wanted.find(Schedule, command.schedule)


def _needs_fired(wanted: Needs, command: FireSchedule) -> None:
    wanted.find(Schedule, command.name)
    if command.submit is not None:
        _SUBMIT.needs(wanted, command.submit)


def _needs_run(wanted: Needs, command: RunSchedule) -> None:
    wanted.find(Schedule, command.schedule)
    _SUBMIT.needs(wanted, command.submit)


def _audit_pause(command: PauseSchedule, _: Any) -> Audited:
    return Audited("pause_schedule" if command.paused else "resume_schedule", f"schedule {command.schedule}")


def _audit_run(command: RunSchedule, outcome: ScheduleFired) -> Audited:
    made = outcome.submitted
    told = {} if made is None else {"job_id": made.job_id, "account": command.account_id, "cost": made.cost}
    return Audited("run_schedule", f"schedule {command.schedule}", told)


RULES = (
    Rule(DeclareSchedule, decide=declare_schedule, needs=_needs_declared),
    Rule(
        PauseSchedule,
        decide=pause_schedule,
        needs=_needs_named,
        refuses=("NOT_FOUND",),
        audit=_audit_pause,
        locks_account=False,
    ),
    Rule(FireSchedule, decide=fire_schedule, needs=_needs_fired),
    Rule(RunSchedule, decide=run_schedule, needs=_needs_run, refuses=_SUBMIT.refuses, audit=_audit_run),
)
