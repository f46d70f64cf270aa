"""The library: an account's completed work. Its owner can remove a piece of it; the ledger and the job's row stay.

All of a job's texts are emptied at once. The rows of its files are marked as removed, and the bytes are deleted soon
after.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from .commands import RemoveWork
from .files import removed
from .outcomes import Refusal, WorkRemoved
from .records import File, FileUsage, Job
from .refusals import no_job
from .rule import Audited, Needs, Rule
from .workspace import Workspace

EMPTY: Final = "null"
"""What is stored in place of a removed text."""


def is_in_library(job: Job) -> bool:
    return job.status == "completed" and job.removed_at is None


def remove_work(ws: Workspace, command: RemoveWork) -> WorkRemoved | Refusal:
    """Empties the payload, the result, the checkpoint and what the history quotes of them; deletes the steps and the
    files."""
    job = ws.job(command.job_id)
    if job is None or command.account_id != job.account_id:
        return no_job(command.job_id)
    if job.removed_at is not None:
        return WorkRemoved(job.id, changed=False)
    if not is_in_library(job):
        return Refusal(
            "INVALID_STATE",
            f"job {job.id} is {job.status}; nothing was removed. Only completed work is in the library.",
            details={"status": job.status},
        )
    if job.spec.content_hash is not None:
        ws.forget_content(job)
    point = job.checkpoint
    emptied = None if point is None else replace(point, data=EMPTY, partial=None)
    job = replace(job, checkpoint=emptied, removed_at=ws.now, events=job.events + 1)
    ws.put_job(job)
    ws.forget_texts(job.id, EMPTY)
    ws.add_event(job, "removed")
    found = (ws.find(File, file_id) for file_id in command.files)
    gone = [removed(ws, file) for file in found if file is not None and _is_only_of(job, file)]
    return WorkRemoved(job.id, changed=True, files=tuple(file.id for file in gone))


def _is_only_of(job: Job, file: File) -> bool:
    """Whether a file is the job's own result, or an input that no other job has taken."""
    is_its = (file.account_id, file.job_id, file.state) == (job.account_id, job.id, "stored")
    return is_its and file.uses <= (file.role == "input")


def _needs(wanted: Needs, command: RemoveWork) -> None:
    wanted.accounts.add(command.account_id)
    wanted.owned_jobs.add(command.job_id)
    wanted.find(FileUsage, command.account_id)
    wanted.find(File, *command.files)


def _audit(command: RemoveWork, _: WorkRemoved) -> Audited:
    return Audited("remove_work", f"job {command.job_id}")


RULES = (Rule(RemoveWork, decide=remove_work, needs=_needs, refuses=("INVALID_STATE", "NOT_FOUND"), audit=_audit),)
