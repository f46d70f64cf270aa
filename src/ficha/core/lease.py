"""What a worker writes while it holds a job. Each write is fenced: only the holder of the newest lease may write."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from . import checkpoints, states
from .commands import Heartbeat, Note, NoteStart, Report, SaveCheckpoint, SaveStep
from .outcomes import Held, Refusal, StepSaved
from .policy import MILLISECOND
from .records import Checkpoint, Job, Leased, Step
from .refusals import lease_lost, no_job
from .rule import Needs, Rule
from .workspace import Workspace


def heartbeat(ws: Workspace, command: Heartbeat) -> Held | Refusal:
    job = held_job(ws, command.job_id, command.epoch)
    if isinstance(job, Refusal):
        return job
    if command.starts and job.status == "starting":
        job = states.started(job, ws.now)
        ws.add_event(job, "started", epoch=job.epoch)
    return _extended(ws, job)


def save_checkpoint(ws: Workspace, command: SaveCheckpoint) -> Held | Refusal:
    """Saves where the job resumes from, with its data. It counts as a heartbeat too.

    A declared checkpoint that the job has passed changes nothing.
    """
    job = held_job(ws, command.job_id, command.epoch)
    if isinstance(job, Refusal):
        return job
    is_passed = checkpoints.is_passed(command.declared, job, command.name)
    if isinstance(is_passed, Refusal):
        return is_passed
    if not is_passed:
        partial = None if job.checkpoint is None else job.checkpoint.partial
        point = Checkpoint(command.name, command.progress, command.data, ws.now, partial)
        job = replace(job, checkpoint=point)
        job = told(ws, job, "checkpoint", name=command.name, progress=command.progress)
    return _extended(ws, job)


def save_step(ws: Workspace, command: SaveStep) -> StepSaved | Refusal:
    """Saves a step's result once: a second call for the same name gets the first result."""
    job = held_job(ws, command.job_id, command.epoch)
    if isinstance(job, Refusal):
        return job
    earlier = ws.step(job.id, command.name)
    if earlier is not None:
        _extended(ws, job)
        return StepSaved(job.id, command.name, earlier)
    if job.events >= (most := ws.policy.job_events):
        return Refusal(
            "TOO_LARGE",
            f"job {job.id} has {job.events} events and may store no further step: the limit is {most}. Do more in one "
            "step, or raise the application's Limits.job_events.",
            details={"limit": most},
        )
    ws.put_step(Step(job.id, command.name, command.result_json, ws.now))
    _extended(ws, told(ws, job, "step", name=command.name))
    return StepSaved(job.id, command.name, command.result_json)


def report(ws: Workspace, command: Report) -> Held | Refusal:
    """Saves progress and a partial result, for those who watch; the checkpoint stays the same."""
    job = held_job(ws, command.job_id, command.epoch)
    if isinstance(job, Refusal):
        return job
    before = job.checkpoint or Checkpoint("", 0, "{}", ws.now)
    progress = before.progress if command.progress is None else command.progress
    partial = before.partial if command.partial_json is None else command.partial_json
    job = replace(job, checkpoint=replace(before, progress=progress, partial=partial))
    if command.partial_json is None:
        job = told(ws, job, "progress", progress=progress)
    else:
        job = told(ws, job, "partial", progress=progress)
    return _extended(ws, job)


def note(ws: Workspace, command: Note) -> Held | Refusal:
    """Writes an event to the job's history, from its handler; or, at the end of a run, how many lines it left out."""
    job = held_job(ws, command.job_id, command.epoch)
    if isinstance(job, Refusal):
        return job
    if command.left_out:
        lines = "1 log line was" if command.left_out == 1 else f"{command.left_out} log lines were"
        job = replace(job, events=job.events + 1)
        ws.add_event(job, "log", text=f"{lines} left out here; the worker's log has them")
        return _extended(ws, job)
    is_kept = job.events < ws.policy.job_events
    return replace(_extended(ws, told(ws, job, "log", text=command.line)), is_kept=is_kept)


def note_start(ws: Workspace, command: NoteStart) -> Held | Refusal:
    """Writes that a provider may have received a start from now on. The next run of this attempt reads it."""
    job = held_job(ws, command.job_id, command.epoch)
    if isinstance(job, Refusal):
        return job
    job = replace(job, events=job.events + 1)
    ws.add_event(job, "requested", attempt=job.attempts, provider=command.provider, target=command.target)
    return _extended(ws, job)


def told(ws: Workspace, job: Job, kind: str, **data: Any) -> Job:
    """Adds an event of the handler to the job's history, and returns the job. At the limit it adds one that says so,
    then none, and the job goes on: a handler that reports without end fills no table."""
    most = ws.policy.job_events
    if job.events > most:
        return job
    if job.events == most:
        text = f"a job's history keeps {most} events (Limits.job_events): its handler's further ones are left out"
        kind, data = "log", {"text": text}
    job = replace(job, events=job.events + 1)
    ws.add_event(job, kind, **data)
    return job


def held_job(ws: Workspace, job_id: str, epoch: int) -> Job | Refusal:
    """The job, if it is leased under this epoch.

    A lease past its expiry is still valid until the job is recovered, so that the work can go on.
    """
    job = ws.job(job_id)
    if job is None:
        return no_job(job_id)
    return lost(job, epoch) or job


def lost(job: Job, epoch: int) -> Refusal | None:
    """The refusal, if the lease of this epoch is lost."""
    return None if job.epoch == epoch and isinstance(job.place, Leased) else lease_lost(job, epoch)


def _extended(ws: Workspace, job: Job) -> Held:
    lease = job.place
    assert isinstance(lease, Leased)
    # A clock that went back must not shorten a lease.
    expires_at = max(lease.expires_at, ws.now + ws.policy.lease_ms * MILLISECOND)
    lease = replace(lease, heartbeat_at=max(lease.heartbeat_at, ws.now), expires_at=expires_at)
    ws.put_job(replace(job, place=lease))
    return Held(job.id, job.status, lease.expires_at, lease.deadline_at)


def _needs_job(wanted: Needs, command: Heartbeat | SaveCheckpoint | Report | Note | NoteStart) -> None:
    wanted.jobs.add(command.job_id)


def _needs_step(wanted: Needs, command: SaveStep) -> None:
    wanted.jobs.add(command.job_id)
    wanted.steps.add((command.job_id, command.name))


RULES = (
    Rule(Heartbeat, decide=heartbeat, needs=_needs_job, refuses=("LEASE_LOST", "NOT_FOUND"), locks_account=False),
    Rule(
        SaveCheckpoint,
        decide=save_checkpoint,
        needs=_needs_job,
        refuses=("INVALID_ARGUMENT", "INVALID_STATE", "LEASE_LOST", "NOT_FOUND"),
        locks_account=False,
    ),
    Rule(
        SaveStep,
        decide=save_step,
        needs=_needs_step,
        refuses=("LEASE_LOST", "NOT_FOUND", "TOO_LARGE"),
        locks_account=False,
    ),
    Rule(Report, decide=report, needs=_needs_job, refuses=("LEASE_LOST", "NOT_FOUND"), locks_account=False),
    Rule(Note, decide=note, needs=_needs_job, refuses=("LEASE_LOST", "NOT_FOUND"), locks_account=False),
    Rule(NoteStart, decide=note_start, needs=_needs_job, refuses=("LEASE_LOST", "NOT_FOUND"), locks_account=False),
)
