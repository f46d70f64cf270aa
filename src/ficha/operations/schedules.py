"""Schedules: recurring jobs, shown, paused, resumed and run by operators, and fired at their slots."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from .. import validation as arg
from ..core.commands import DeclareSchedule, FireSchedule, PauseSchedule, RunSchedule, Submit
from ..core.cron_slots import last_slots, local_time, next_slot
from ..core.outcomes import Refusal, ScheduleChanged, ScheduleFired
from ..core.policy import SECOND
from ..core.records import Schedule
from ..core.schedules import COUNTED, FREE, due
from ..cron_entries import CronEntry
from ..engine.views import Receipt, ScheduleView, schedule_view
from ..errors import Refused
from ..job_log import fields_of
from ..requests import SubmitRequest
from ..store.base import ListSchedules
from .submits import SubmitOperations

log = logging.getLogger("ficha.schedules")

LOOK_S: Final = 300.0
"""The longest pause before the next look for due slots. It is bounded because the database's clock may be set."""


class ScheduleOperations(SubmitOperations):
    async def schedules(self) -> list[ScheduleView]:
        """All schedules by name, with the next slot and the last outcome of each; also those that the application no
        longer declares."""
        found = await self.engine.read(ListSchedules())
        known = {schedule.name: schedule for schedule in found.schedules}
        for entry in self.cron_entries.values():
            fresh = known.get(entry.name) or Schedule(entry.name, "", "", "", None, slot_at=found.now)
            terms = {"cron": entry.cron, "tz": entry.tz, "tool": entry.tool, "account_id": entry.payer}
            known[entry.name] = replace(fresh, **terms)
        return [self._view(known[name], found.now) for name in sorted(known)]

    async def pause_schedule(self, name: str) -> ScheduleView:
        """Pauses a schedule: its slots pass without a job, and are not made up for."""
        return await self._pause(name, True)

    async def resume_schedule(self, name: str) -> ScheduleView:
        """Resumes a schedule: its slots are fired again from now on."""
        return await self._pause(name, False)

    async def run_schedule(self, name: str, *, key: str | None = None) -> Receipt:
        """Submits the schedule's job now, paused or not; its slots stay as they are. A payload function gets the
        present time.

        key: the caller's own name for this run; a repeat returns the first job.
        """
        entry = self.cron_entries.get(named := arg.name(name, "a schedule"))
        if entry is None:
            raise Refused.of(
                Refusal("NOT_FOUND", f"the application declares no schedule {named!r}; nothing was changed.")
            )
        now = await self.queries.now()
        await self._declare(entry)
        submit = await self._submit_of(entry, now, None if key is None else f"run:{named}:{arg.key(key)}")
        outcome = await self._ask(RunSchedule(named, submit.account_id, submit), ScheduleFired)
        assert outcome.submitted is not None
        return await self._receipt(outcome.submitted)

    async def _pause(self, name: str, paused: bool) -> ScheduleView:
        entry = self.cron_entries.get(named := arg.name(name, "a schedule"))
        if entry is not None:
            await self._declare(entry)
        changed = await self._ask(PauseSchedule(named, paused), ScheduleChanged)
        return self._view(changed.schedule, await self.queries.now())

    def _view(self, schedule: Schedule, now: int) -> ScheduleView:
        entry = self.cron_entries.get(schedule.name)
        return schedule_view(schedule, None if entry is None else entry.missed, now)

    async def _declare(self, entry: CronEntry) -> Schedule:
        command = DeclareSchedule(entry.name, entry.cron, entry.tz, entry.tool, entry.payer)
        # Not an actor's act: it writes no line of the audit log.
        outcome = await self.engine.call(command)
        assert isinstance(outcome, ScheduleChanged)
        return outcome.schedule

    async def _submit_of(self, entry: CronEntry, slot: int, key: str | None) -> Submit:
        """The submit of a slot. Raises Refused if its payload does not fit the tool."""
        payload = _payload_of(entry, slot)
        request = SubmitRequest(
            tool=entry.tool,
            payload=payload,
            account=entry.payer or FREE,
            idempotency_key=key,
            correlation_id=_label(entry, slot),
        )
        command = await self._submit_command(request)
        if entry.payer is not None:
            return command
        free = tuple(replace(job, spec=replace(job.spec, cost=0)) for job in command.jobs)
        return replace(command, jobs=free)


class ScheduleFirer:
    """Fires the slots of an application's schedules. Each process may have one: the rule fires each slot only once."""

    def __init__(self, operations: ScheduleOperations) -> None:
        self._operations = operations
        self._is_declared = False

    async def fire(self) -> float:
        """Fires the slots that are due; returns after how many seconds to call it again."""
        entries = self._operations.cron_entries.values()
        found = await self._operations.engine.store.read(ListSchedules())
        known = {schedule.name: schedule for schedule in found.schedules}
        waits = [LOOK_S]
        for entry in entries:
            schedule = known.get(entry.name)
            # Declared only once per process: while releases with different schedules run side by side, the one that
            # was started last counts.
            if schedule is None or (not self._is_declared and not _is_same(entry, schedule)):
                schedule = await self._operations._declare(entry)
            if not schedule.paused and (schedule.cron, schedule.tz) == (entry.cron, entry.tz):
                await self._settle(entry, schedule.slot_at, found.now)
            following = next_slot(entry.cron, entry.tz, found.now)
            waits += [] if following is None else [(following - found.now) / SECOND]
        self._is_declared = True
        return max(0.0, min(waits))

    async def _settle(self, entry: CronEntry, from_at: int, now: int) -> None:
        slots = last_slots(entry.cron, entry.tz, from_at, now, COUNTED)
        plan = due(slots, now, entry.missed, int(entry.late_s * SECOND), entry.missed_max)
        if plan.newest is None:
            return
        passed = plan.passed
        for slot in plan.fired or (None,):
            command = await self._command(entry, from_at, slot, plan.newest if slot is None else slot, passed)
            outcome = await self._operations.engine.call(command)
            if not isinstance(outcome, ScheduleFired):
                # Refused, such as for overload: the slot is tried again.
                log.warning("the schedule %s waits: %s", entry.name, outcome)
                return
            if not outcome.changed:
                return
            _told(entry, command, outcome)
            from_at, passed = command.slot_at, 0

    async def _command(
        self, entry: CronEntry, from_at: int, slot: int | None, settled: int, passed: int
    ) -> FireSchedule:
        command = FireSchedule(entry.name, entry.cron, entry.tz, from_at, settled, entry.payer or FREE, passed=passed)
        if slot is None:
            return command
        try:
            return replace(command, submit=await self._operations._submit_of(entry, slot, _label(entry, slot)))
        except Refused as refused:
            return replace(command, code=refused.code, message=str(refused))


def _is_same(entry: CronEntry, schedule: Schedule) -> bool:
    terms = schedule.cron, schedule.tz, schedule.tool, schedule.account_id
    return terms == (entry.cron, entry.tz, entry.tool, entry.payer)


def _payload_of(entry: CronEntry, slot: int) -> Mapping[str, Any]:
    if not callable(entry.payload):
        return entry.payload
    try:
        return entry.payload(local_time(slot, entry.tz))
    except Exception as error:
        log.warning("the payload function of schedule %s raised an error", entry.name, exc_info=True)
        words = f"the payload function of schedule {entry.name} raised {type(error).__name__}; nothing was submitted."
        raise Refused.of(Refusal("INVALID_PAYLOAD", words)) from error


def _label(entry: CronEntry, slot: int) -> str:
    """The idempotency key of a slot's submit. It is also the correlation id by which logs show the job."""
    return f"cron:{entry.name}:{local_time(slot, 'UTC'):%Y-%m-%dT%H:%MZ}"


def _told(entry: CronEntry, command: FireSchedule, outcome: ScheduleFired) -> None:
    if command.passed:
        log.warning("the schedule %s passed over %d slots that were missed", entry.name, command.passed)
    if outcome.submitted is not None:
        job_id = outcome.submitted.job_id
        known = fields_of(job_id, tool=entry.tool, status="queued", correlation_id=_label(entry, command.slot_at))
        log.info("the schedule %s was fired: job %s", entry.name, job_id, extra=known)
    elif outcome.schedule is not None and outcome.schedule.last_slot_at == command.slot_at:
        log.warning("the schedule %s was refused: %s", entry.name, outcome.schedule.last_message)
