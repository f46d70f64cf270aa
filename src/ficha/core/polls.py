"""Polls: who asks a provider about a job, and when; and what follows from a provider's call-back.

A call-back ends no job. It is stored, and makes a poll due at once. The process that holds this poll asks the provider,
or reads what a verified call-back said, and ends the job with `Finish`, as after any other poll. So there is one way to
the end, and if it breaks off anywhere, the next poll begins it again.

What a verified call-back says of the end is the provider's word, and the first word counts. A job whose word nobody has
read yet is not failed by its time limit.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from .commands import EndPoll, HoldPoll, NoteCallback
from .lease import told
from .outcomes import CallbackNoted, PollEnded, PollHeld, Refusal
from .policy import MILLISECOND, poll_wait_ms
from .records import Awaiting, Checkpoint, Job
from .refusals import no_job
from .rule import Needs, Rule
from .workspace import Workspace


def note_callback(ws: Workspace, command: NoteCallback) -> CallbackNoted | Refusal:
    job = ws.job(command.job_id)
    if job is None:
        return no_job(command.job_id)
    has_place = job.callbacks < _places(command, ws.policy.job_callbacks)
    if has_place and job.removed_at is None:
        job = replace(job, events=job.events + 1)
        ws.add_event(job, "callback", **_kept(command))
    if has_place or _is_word(command):
        job = replace(job, callbacks=job.callbacks + 1)
    asks = _asks(job, command)
    if asks:
        assert isinstance(job.place, Awaiting)
        assert job.started_at is not None
        place = replace(job.place, poll_at=ws.now)
        if command.ends:
            # Until somebody reads it, for as long as a job may take at all.
            longest_at = job.started_at + ws.policy.max_age_ms * MILLISECOND
            place = replace(place, deadline_at=max(place.deadline_at, longest_at))
        job = replace(job, place=place)
    ws.put_job(job)
    return CallbackNoted(job.id, asks, job.spec, job.status, job.epoch)


def _is_word(command: NoteCallback) -> bool:
    """Whether it is the provider's word, as far as anybody can tell: those of a provider that signs nothing, too."""
    return command.ends or command.verdict == "unsigned"


def _places(command: NoteCallback, most: int) -> int:
    """How many call-backs may be kept before this one so that it is kept too. What was not proven has half of the
    places, and the last one is for a verified end: so neither forgeries nor progress push that out."""
    if _is_word(command):
        return most
    return most - 1 if command.verdict == "verified" else most // 2


def _asks(job: Job, command: NoteCallback) -> bool:
    """Whether the call-back causes a poll now. Before the provider has accepted the job it does not: the acceptance
    sees that call-backs were counted, and makes the first poll due at once."""
    place = job.place
    is_its_own = isinstance(place, Awaiting) and place.poll_at is not None and is_named(place, command.ref)
    return is_its_own and command.attempt == job.attempts and command.verdict != "forged"


def is_named(place: Awaiting, ref: str | None) -> bool:
    """Whether a call-back that names this reference, or none, may be about the work. The stored reference may have a
    path, such as the model's name, before the part that call-backs name."""
    return ref is None or place.ref == ref or place.ref.endswith(f"/{ref}")


def _kept(command: NoteCallback) -> dict[str, Any]:
    kept: dict[str, Any] = {"verdict": command.verdict, "attempt": command.attempt, "body": command.body}
    if command.ref is not None:
        # The name is not `ref`: queries find the jobs that a provider has accepted by that field.
        kept["about"] = command.ref
    if command.headers:
        kept["headers"] = command.headers
    if command.told is not None:
        kept["told"] = command.told
    return kept


def hold_poll(ws: Workspace, command: HoldPoll) -> PollHeld:
    job = ws.job(command.job_id)
    if job is None or not isinstance(job.place, Awaiting) or job.place.poll_at is None:
        return PollHeld(None)
    may_hold = job.place.poll_at <= ws.now if command.held_at is None else job.place.poll_at == command.held_at
    if not may_hold:
        return PollHeld(None)
    # From the first look at the provider's word, its files may take as long as a run.
    deadline_at = min(job.place.deadline_at, ws.now + job.spec.timeout_ms * MILLISECOND)
    poll_at = ws.now + command.hold_ms * MILLISECOND
    job = replace(job, place=replace(job.place, poll_at=poll_at, deadline_at=deadline_at))
    ws.put_job(job)
    return PollHeld(job)


def end_poll(ws: Workspace, command: EndPoll) -> PollEnded:
    job = ws.job(command.job_id)
    if job is None or not isinstance(job.place, Awaiting):
        return PollEnded(None)
    if job.place.poll_at != command.held_at:
        return PollEnded(job.place.poll_at)
    wait_ms = max(poll_wait_ms(job.place, ws.now, command.poll_ms), command.after_ms)
    job = replace(job, place=replace(job.place, poll_at=ws.now + wait_ms * MILLISECOND))
    before = job.checkpoint or Checkpoint("", 0, "{}", ws.now)
    if command.progress not in (None, before.progress):
        job = replace(job, checkpoint=replace(before, progress=command.progress))
        job = told(ws, job, "progress", progress=command.progress)
    ws.put_job(job)
    assert isinstance(job.place, Awaiting)
    return PollEnded(job.place.poll_at)


def _needs_owner(wanted: Needs, command: NoteCallback) -> None:
    # The row of a job that has ended changes only under its account's lock.
    wanted.owned_jobs.add(command.job_id)


def _needs_job(wanted: Needs, command: HoldPoll | EndPoll) -> None:
    wanted.jobs.add(command.job_id)


RULES = (
    Rule(NoteCallback, decide=note_callback, needs=_needs_owner, refuses=("NOT_FOUND",)),
    Rule(HoldPoll, decide=hold_poll, needs=_needs_job, locks_account=False),
    Rule(EndPoll, decide=end_poll, needs=_needs_job, locks_account=False),
)
