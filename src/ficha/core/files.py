"""Files: how many and how large an account's files may be, which jobs take them, and when they are removed.

The bytes are in the file storage. Room for them is set aside before they arrive, so that concurrent uploads never
exceed a limit together. A `removed` file stays in the table until its bytes are deleted. The row of an upload that died
stays longer: where the sending process was suspended, bytes may still arrive, and only the row says where. Every change
of a file, except the deletion of its row, is made under its account's lock.
"""

from __future__ import annotations

from msgspec.structs import replace

from .commands import BeginFile, ExpireFile, FileRun, ForgetFile, NewJob, RemoveFile, StoreFile
from .lease import lost
from .outcomes import FileChanged, Forgotten, Refusal
from .policy import MILLISECOND, Plan
from .quota import refuse_reservation
from .records import Awaiting, File, FileUsage
from .refusals import account_closed, no_account, no_file, no_job, no_plan
from .rule import Audited, Needs, Rule
from .states import FINAL
from .workspace import Workspace


def begin_file(ws: Workspace, command: BeginFile) -> FileChanged | Refusal:
    """Sets room aside for a file. The plan limits only uploads: what a job makes was paid for."""
    account = ws.account(command.account_id)
    if account is None:
        return no_account(command.account_id)
    plan = ws.plan(account)
    if command.run is None and (closed := account_closed(account)) is not None:
        return closed
    if plan is None and command.run is None:
        return no_plan(account.plan, ws.policy)
    bounds = None if command.run is not None else plan
    refusal = (
        refuse_reservation(ws, command.reservation_id, account.id)
        or _refuse_run(ws, command.run, account.id)
        or _refuse_room(ws, command, bounds)
    )
    if refusal is not None:
        return refusal
    known = ws.find(File, command.file_id)
    if known is not None and (refusal := _refuse_again(known, command)) is not None:
        return refusal
    if known is not None and known.state == "stored":
        # The same part of the same run was copied before: a second copy would be the same.
        return FileChanged(known, changed=False)
    expires_at = ws.now + ws.policy.upload_ms * MILLISECOND
    if known is not None and known.state == "uploading" and known.expires_at is not None:
        # This time identifies the attempt, so no two attempts may have the same.
        expires_at = max(expires_at, known.expires_at + 1)
    file = File(
        command.file_id,
        account.id,
        command.name,
        "uploading",
        "input" if command.run is None else "result",
        # This time is part of the storage key, so a second attempt overwrites the bytes of the first.
        ws.now if known is None else known.created_at,
        expires_at,
        size=_room(ws, command, bounds),
        job_id=None if command.run is None else command.run.job_id,
        reservation_id=command.reservation_id,
    )
    _put(ws, file)
    return FileChanged(file)


def store_file(ws: Workspace, command: StoreFile) -> FileChanged | Refusal:
    """Makes a file usable. An upload that took too long, and was removed meanwhile, is not found."""
    file = ws.find(File, command.file_id)
    if file is None or file.account_id != command.account_id or file.state == "removed":
        return no_file(command.file_id)
    if (refusal := _refuse_run(ws, command.run, file.account_id)) is not None:
        return refusal
    if file.state == "stored":
        return FileChanged(file, changed=False)
    if command.size > file.size:
        return Refusal(
            "TOO_LARGE",
            f"file {file.id} has {command.size} bytes, more than the {file.size} that it was begun with; it was not "
            "kept. Upload it again.",
            details={"bytes": command.size, "limit": file.size},
        )
    file = replace(
        file,
        state="stored",
        size=command.size,
        media_type=command.media_type,
        digest=command.digest,
        expires_at=ws.now + ws.policy.unused_file_ms * MILLISECOND,
    )
    _put(ws, file)
    return FileChanged(file)


def remove_file(ws: Workspace, command: RemoveFile) -> FileChanged | Refusal:
    """Removes a file. A job that takes it and has not read it yet will fail, and be refunded."""
    file = ws.find(File, command.file_id)
    if file is None or file.account_id != command.account_id:
        return no_file(command.file_id)
    if file.state == "removed" or (file.state == "stored" and command.aborts):
        # An attempt that gives up must not remove a file that another attempt has stored meanwhile.
        return FileChanged(file, changed=False)
    if file.state == "uploading" and command.expires_at is not None and _has_others(ws, file, command.expires_at):
        # Nor a file whose bytes another attempt may still be sending. If no attempt stores it, it expires.
        return FileChanged(file, changed=False)
    if file.state == "uploading" and not command.aborts:
        return Refusal(
            "INVALID_STATE",
            f"file {file.id} is being uploaded; nothing was changed. It goes by itself if the upload does not end.",
            details={"state": file.state},
        )
    return FileChanged(removed(ws, file))


def _has_others(ws: Workspace, file: File, expires_at: int) -> bool:
    """Whether an attempt other than that of this time has begun the file. The first attempt's time follows from the
    creation of the file, so another time means a second attempt."""
    return not expires_at == file.expires_at == file.created_at + ws.policy.upload_ms * MILLISECOND


def expire_file(ws: Workspace, command: ExpireFile) -> Forgotten:
    """Removes a file whose time is over: an upload that died, an input that no job took, a result of a job that did not
    complete. A result of a completed job, or one that another job took, is kept until somebody removes it."""
    file = ws.find(File, command.file_id)
    if (
        file is None
        or file.account_id != command.account_id
        or file.state == "removed"
        or file.expires_at is None
        or file.expires_at > ws.now
        or (file.role == "result" and file.job_id != command.job_id)
    ):
        return Forgotten(changed=False)
    job = None if command.job_id is None or file.role != "result" else ws.job(command.job_id)
    if file.state == "uploading" and job is not None and isinstance(job.place, Awaiting):
        # The copy of a provider's result may be begun again, into the same place, for as long as its job waits.
        _put(ws, replace(file, expires_at=ws.now + ws.policy.upload_ms * MILLISECOND))
    elif file.state == "uploading":
        _put(ws, replace(file, state="removed", expires_at=ws.now + ws.policy.dead_uploads_kept_ms * MILLISECOND))
    elif file.role == "result" and (file.uses or (job is not None and job.status == "completed")):
        _put(ws, replace(file, expires_at=None))
    elif job is not None and job.status not in FINAL:
        _put(ws, replace(file, expires_at=ws.now + ws.policy.unused_file_ms * MILLISECOND))
    else:
        removed(ws, file)
    return Forgotten(changed=True)


def forget_file(ws: Workspace, command: ForgetFile) -> Forgotten:
    """Deletes the row of a removed file, unless bytes may still arrive."""
    file = ws.find(File, command.file_id)
    if file is None or file.state != "removed" or (file.expires_at is not None and file.expires_at > ws.now):
        return Forgotten(changed=False)
    ws.remove(file)
    return Forgotten(changed=True)


def refuse_files(ws: Workspace, account_id: str, jobs: tuple[NewJob, ...]) -> Refusal | None:
    """Returns the refusal, if a file that the jobs name is not the account's own, or not stored."""
    for job in jobs:
        for file_id in job.files:
            file = ws.find(File, file_id)
            if file is None or file.account_id != account_id or file.state == "removed":
                return Refusal(
                    "INVALID_PAYLOAD",
                    f"the payload names the file {file_id}, and account {account_id} has no such file; nothing was "
                    "submitted. Upload it first, and send the id that the upload answers with.",
                    details={"file": file_id},
                )
            if file.state == "uploading":
                return Refusal(
                    "INVALID_STATE",
                    f"the payload names the file {file_id}, which is still being uploaded; nothing was submitted. "
                    "Submit when the upload has ended.",
                    details={"file": file_id, "state": file.state},
                )
    return None


def take_files(ws: Workspace, job: NewJob) -> None:
    """Counts the use of a job's files, each once. From now on they are kept until somebody removes them."""
    for file_id in dict.fromkeys(job.files):
        file = ws.find(File, file_id)
        assert file is not None
        expires_at = file.expires_at if file.role == "result" else None
        ws.put(replace(file, uses=file.uses + 1, job_id=file.job_id or job.id, expires_at=expires_at))


def _refuse_run(ws: Workspace, run: FileRun | None, account_id: str) -> Refusal | None:
    """Returns the refusal, if a result does not come from the job's current run."""
    if run is None:
        return None
    job = ws.job(run.job_id)
    if job is None or job.account_id != account_id:
        return no_job(run.job_id)
    if run.epoch is not None:
        return lost(job, run.epoch)
    if isinstance(job.place, Awaiting) and job.attempts == run.attempts:
        return None
    return Refusal(
        "LEASE_LOST",
        f"job {job.id} does not wait for the provider's run {run.attempts} (it is {job.status}, after {job.attempts} "
        "failed runs); nothing was changed.",
        details={"status": job.status, "attempts": job.attempts},
    )


def _refuse_room(ws: Workspace, command: BeginFile, plan: Plan | None) -> Refusal | None:
    """The refusal, if there is no room for the file. A result is bound by the application's limit alone."""
    most = _largest(ws, plan)
    if command.least > most:
        whose = f"plan {plan.name}" if plan is not None and plan.file_bytes == most else "the application"
        return Refusal(
            "TOO_LARGE",
            f"the file has {command.least} bytes or more, and {whose} allows {most}; nothing was stored. Send a "
            "smaller file.",
            details={"limit": most},
        )
    if plan is None:
        return None
    used = _usage(ws, command.account_id)
    if plan.max_files is not None and used.files >= plan.max_files:
        return Refusal(
            "QUOTA_EXCEEDED",
            f"plan {plan.name} allows {plan.max_files} files and account {command.account_id} has {used.files}; "
            "nothing was stored. Remove some of them.",
            details={"limit": plan.max_files, "files": used.files},
        )
    if plan.storage_bytes is not None and used.size + max(1, command.least) > plan.storage_bytes:
        return Refusal(
            "QUOTA_EXCEEDED",
            f"plan {plan.name} allows {plan.storage_bytes} bytes of files together and account {command.account_id} "
            f"has {used.size}; nothing was stored. Remove some of them.",
            details={"limit": plan.storage_bytes, "bytes": used.size},
        )
    return None


def _largest(ws: Workspace, plan: Plan | None) -> int:
    """Returns how many bytes one file may have at most."""
    limit = None if plan is None else plan.file_bytes
    return ws.policy.file_bytes if limit is None else min(limit, ws.policy.file_bytes)


def _room(ws: Workspace, command: BeginFile, plan: Plan | None) -> int:
    """Returns how many bytes the file may have: as many as were asked for, or as the limits leave."""
    room = _largest(ws, plan)
    if command.most is not None:
        room = min(room, command.most)
    if plan is not None and plan.storage_bytes is not None:
        room = min(room, plan.storage_bytes - _usage(ws, command.account_id).size)
    return room


def _refuse_again(known: File, command: BeginFile) -> Refusal | None:
    """Returns the refusal, if the id is taken: only the copy of a provider's result may begin more than once."""
    run = command.run
    is_copy = run is not None and run.epoch is None
    if run is None or not is_copy or (known.account_id, known.job_id) != (command.account_id, run.job_id):
        return Refusal("INVALID_STATE", f"the file {known.id} exists already; nothing was changed.")
    if known.state == "removed":
        words = f"the bytes of an earlier copy of file {known.id} are still being deleted; nothing was changed."
        return Refusal("OVERLOADED", f"{words} Try again in a moment.", retry_after_s=5.0)
    return None


def removed(ws: Workspace, file: File) -> File:
    """Marks a file as removed and returns it. Its row stays until its bytes are deleted."""
    file = replace(file, state="removed", expires_at=ws.now)
    _put(ws, file)
    return file


def _usage(ws: Workspace, account_id: str) -> FileUsage:
    return ws.find(FileUsage, account_id) or FileUsage(account_id)


def _put(ws: Workspace, file: File) -> None:
    """Sets the file's new value, and updates its account's usage."""
    before = ws.find(File, file.id)
    used = _usage(ws, file.account_id)
    files, size = used.files + _counts(file) - _counts(before), used.size + _bytes(file) - _bytes(before)
    if (files, size) != (used.files, used.size):
        ws.put(replace(used, files=files, size=size))
    ws.put(file)


def _counts(file: File | None) -> int:
    return int(file is not None and file.state != "removed")


def _bytes(file: File | None) -> int:
    return 0 if file is None or file.state == "removed" else file.size


def _needs_begin(wanted: Needs, command: BeginFile) -> None:
    _needs_file(wanted, command)
    if command.reservation_id is not None:
        wanted.reservations.add(command.reservation_id)
    if command.run is not None:
        wanted.owned_jobs.add(command.run.job_id)


def _needs_store(wanted: Needs, command: StoreFile) -> None:
    _needs_file(wanted, command)
    if command.run is not None:
        wanted.owned_jobs.add(command.run.job_id)


def _needs_expiry(wanted: Needs, command: ExpireFile) -> None:
    _needs_file(wanted, command)
    if command.job_id is not None:
        wanted.owned_jobs.add(command.job_id)


def _needs_file(wanted: Needs, command: BeginFile | StoreFile | RemoveFile | ExpireFile) -> None:
    wanted.accounts.add(command.account_id)
    wanted.find(File, command.file_id)
    wanted.find(FileUsage, command.account_id)


def _needs_row(wanted: Needs, command: ForgetFile) -> None:
    wanted.find(File, command.file_id)


def _audit_removal(command: RemoveFile, outcome: FileChanged) -> Audited:
    return Audited("remove_file", f"file {command.file_id}", {"account": command.account_id, "name": outcome.file.name})


RULES = (
    Rule(
        BeginFile,
        decide=begin_file,
        needs=_needs_begin,
        refuses=(
            "ACCOUNT_CLOSED",
            "INVALID_STATE",
            "LEASE_LOST",
            "NOT_FOUND",
            "OVERLOADED",
            "QUOTA_EXCEEDED",
            "TOO_LARGE",
        ),
    ),
    Rule(StoreFile, decide=store_file, needs=_needs_store, refuses=("LEASE_LOST", "NOT_FOUND", "TOO_LARGE")),
    Rule(
        RemoveFile, decide=remove_file, needs=_needs_file, refuses=("INVALID_STATE", "NOT_FOUND"), audit=_audit_removal
    ),
    Rule(ExpireFile, decide=expire_file, needs=_needs_expiry),
    Rule(ForgetFile, decide=forget_file, needs=_needs_row, locks_account=False),
)
