"""Files: uploads, results of jobs, links, and removal. Rows are in the database, bytes in the file storage.

A failure between the two leaves nothing behind: the space reserved for the bytes is released, and bytes without a row
are deleted. If this process dies before that, the sweeper does it later.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import aclosing, contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from .. import validation as arg
from ..core import commands as c
from ..core.outcomes import FileChanged, Forgotten, Refusal
from ..core.records import File, FileRole
from ..core.refusals import no_file
from ..engine.views import FileLink, FileView, Lease, Page, UploadView, file_view, moment
from ..errors import Refused
from ..file_data import FileData, chunks_of, size_of
from ..files.links import LONGEST_S, FileLinks
from ..files.names import clean_name
from ..files.picture_metadata import without_place_and_device
from ..files.storage import FileMissing, FileTooLarge, StorageAway, StorageError, StorageFull, StoredBytes
from ..ids import new_id
from ..job_files import LINK_S, FileFacts, JobFile
from ..outbound.errors import OutboundError
from ..store.base import ListDueFiles, ListFiles, StoreError
from .file_access import FileAccess
from .submits import SubmitOperations

if TYPE_CHECKING:
    from ..providers.base import RemoteFile

log = logging.getLogger("ficha.files")

RESULTS: Final = uuid.UUID("5f0e4c1e-3a57-5d0b-9a55-2f4c35f6f7a1")
"""The namespace of the ids of results that are copied from a provider."""
REDIRECTS: Final = 3
"""How many redirects are followed from the address of a provider's result."""
IDS_SEARCHED: Final = 1_000
"""How many strings of a payload are tried as ids of files, at most."""
ROUNDS: Final = 20
"""The most rounds of one sweep; the rest is left to the next sweep."""
DUE: Final = 500


def storage_key(file: File) -> str:
    """The key of a file's bytes in the storage. It contains the time of creation, so that deleting an earlier file with
    the same id never deletes the bytes of this one."""
    owner = hashlib.sha256(file.account_id.encode()).hexdigest()[:32]
    return f"{owner}/{file.id}_{file.created_at:x}"


def result_id(job_id: str, attempt: int, number: int) -> str:
    """The id of a provider's result: the same for every copy of it."""
    return str(uuid.uuid5(RESULTS, f"{job_id}:{attempt}:{number}"))


class FileOperations(SubmitOperations):
    file_access: FileAccess

    async def upload(
        self, account: str, name: str, data: FileData, *, reservation: str | None = None, size: int | None = None
    ) -> FileView:
        """Stores a file of the account, to be named in a payload.

        data: bytes, a path, a file that is open in binary mode, or chunks of bytes. name: the file's name.
        reservation: the quota slot held for its job. size: the number of bytes, if `data` does not tell it.
        A file that no job has taken is removed after `unused_file_s`, a day by default.
        """
        known = size_of(data) if size is None else _size(size)
        return await self.receive(account, name, chunks_of(data), known or 0, known, reservation=reservation)

    async def receive(
        self,
        account: str,
        name: str,
        chunks: AsyncIterator[bytes],
        least: int = 0,
        most: int | None = None,
        *,
        reservation: str | None = None,
    ) -> FileView:
        """The same, from a stream of at least `least` and at most `most` bytes."""
        command = c.BeginFile(
            new_id(),
            arg.name(account, "an account"),
            arg.file_name(name),
            least,
            most,
            None if reservation is None else arg.job_id(reservation, "reservation"),
        )
        return file_view(await self._stored(command, chunks))

    async def begin_upload(
        self, account: str, name: str, size: int, *, media_type: str = "", reservation: str | None = None
    ) -> UploadView:
        """Begins an upload that the client sends straight to the storage, to a presigned URL; `complete_upload` makes a
        file of it. Needs an S3-compatible store.

        size: the exact number of bytes. media_type: the Content-Type that the client will send.
        """
        known = _size(size)
        reserved = None if reservation is None else arg.job_id(reservation, "reservation")
        command = c.BeginFile(
            new_id(), arg.name(account, "an account"), arg.file_name(name), known, known, reservation_id=reserved
        )
        file = (await self._ask(command, FileChanged)).file
        sent_as = media_type or "application/octet-stream"
        expires_s = max(1, self.engine.policy.upload_ms // 1_000)
        try:
            with _storage_errors(file):
                url = await self.file_access.storage.presign_put(storage_key(file), expires_s, known, sent_as)
            if url is None:
                words = "the files of this application take no direct uploads; send the file itself"
                raise arg.invalid(f"{words}, as multipart/form-data")
        except BaseException:
            await self._abandon(file)
            raise
        assert file.expires_at is not None
        headers = {"Content-Type": sent_as, "Content-Length": str(known)}
        return UploadView(file=file_view(file), url=url, headers=headers, expires_at=moment(file.expires_at))

    async def complete_upload(self, file_id: str, *, account: str | None = None) -> FileView:
        """Makes a file of the bytes sent straight to the storage. A repeat changes nothing."""
        file = await self._file(file_id, account)
        if file.state == "stored":
            return file_view(file)
        try:
            with _storage_errors(file):
                stored = await self.file_access.storage.accept(storage_key(file), file.size)
        except FileMissing as missing:
            # Somebody else may have completed it a moment ago.
            file = await self._file(file_id, account)
            if file.state == "stored":
                return file_view(file)
            raise Refused.of(Refusal("INVALID_STATE", f"{missing}; nothing was changed.")) from None
        except Refused as refused:
            if not refused.retryable:
                await self._abandon(file)
            raise
        return file_view(await self._kept(file, stored))

    async def file(self, file_id: str, *, account: str | None = None) -> FileView:
        """A file; with `account`, only if it belongs to that account."""
        return file_view(await self._file(file_id, account))

    async def files(
        self,
        account: str | None = None,
        *,
        role: FileRole | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[FileView]:
        """A page of files, newest first; `after` is the `next` of the page before."""
        if role not in (None, "input", "result"):
            raise arg.invalid(f"role must be input or result, not {role!r}")
        return await self.queries.files(
            ListFiles(
                arg.optional_name(account, "an account"),
                role,
                None if after is None else arg.job_id(after, "file"),
                arg.count(limit, "limit", self.limits.page_items),
            )
        )

    async def job_files(self, job_id: str) -> list[FileView]:
        """The files that a job's payload names, and those that the job made."""
        job = await self.job(job_id)
        named = await self.queries.files_by_id(list(ids_in(job.payload))[:IDS_SEARCHED])
        inputs = [
            file_view(file) for file in named.values() if file.account_id == job.account and file.state != "removed"
        ]
        made = await self.queries.job_files([job.id] if job.parts is None else [part.id for part in job.parts])
        known = {file.id for file in inputs}
        return [*inputs, *(file for files in made.values() for file in files if file.id not in known)]

    async def remove_file(self, file_id: str, *, account: str | None = None) -> FileView:
        """Removes a file; with `account`, only if it belongs to that account. A job that takes the file and has not
        read it yet will fail."""
        file = await self._file(file_id, account, is_any=True)
        removed = (await self._ask(c.RemoveFile(file.id, file.account_id), FileChanged)).file
        await self._delete_bytes(removed)
        return file_view(removed)

    async def file_link(self, file_id: str, *, ttl_s: float = LINK_S, account: str | None = None) -> FileLink:
        """A link with which anyone can read the file, for up to a week. Needs `secret` and `public_url`.

        ttl_s: how many seconds the link is valid. Defaults to an hour.
        """
        return await self.link_with(None, file_id, ttl_s, account)

    async def link_with(self, links: FileLinks | None, file_id: str, ttl_s: float, account: str | None) -> FileLink:
        """The same, made by the given links instead of the application's own."""
        file = await self._stored_file(file_id, account)
        valid_s, now_s = _valid_s(ttl_s), int(time.time())
        url = (links or self.file_access.links).url(file.id, now_s, valid_s)
        return FileLink(url, datetime.fromtimestamp(now_s + valid_s, UTC))

    async def read_file(self, file_id: str, *, account: str | None = None) -> AsyncGenerator[bytes, None]:
        """A file's bytes, piece by piece."""
        file = await self._stored_file(file_id, account)
        async for chunk in self._bytes_of(file):
            yield chunk

    async def stored_file(self, file_id: str, account: str | None = None) -> tuple[File, str]:
        """A file that can be read, and the storage key of its bytes."""
        file = await self._stored_file(file_id, account)
        return file, storage_key(file)

    # What a run does

    async def files_of(self, lease: Lease, ids: Collection[str]) -> list[dict[str, Any]]:
        """The facts of these files of the job's account, as plain JSON; files that are gone are omitted."""
        found = await self.queries.files_by_id(ids)
        files = [file for file in found.values() if file.account_id == lease.account and file.state == "stored"]
        return [{"id": f.id, "name": f.name, "media_type": f.media_type, "size": f.size} for f in files]

    async def open_file(self, lease: Lease, file_id: str) -> AsyncIterator[bytes]:
        """The bytes of a file of the job's account."""
        return self._bytes_of(await self._stored_file(file_id, lease.account))

    async def url_of(self, lease: Lease, file_id: str, expires_s: int) -> str:
        return (await self.file_link(file_id, ttl_s=expires_s, account=lease.account)).url

    async def save_file(self, lease: Lease, name: str, data: FileData) -> dict[str, Any]:
        """Stores a result of the job, while the lease is held."""
        run = c.FileRun(lease.job_id, lease.epoch)
        known = size_of(data)
        command = c.BeginFile(new_id(), lease.account, arg.file_name(name), known or 0, known, run=run)
        file = await self._stored(command, chunks_of(data))
        return {"id": file.id, "name": file.name, "media_type": file.media_type, "size": file.size}

    async def save_result(self, job_id: str, attempt: int, number: int, remote: RemoteFile) -> JobFile:
        """Copies a file that a provider made into the storage, because the provider soon deletes it.

        attempt: the run, by how many failed before it. number: the file's number within the run. The same file is
        stored once, however often this is called. Put the returned file into the job's result, which then shows where
        to find it. Raises OutboundError if the file cannot be fetched.
        """
        name = remote.name or unquote(urlsplit(remote.url).path).rpartition("/")[2] or f"result-{number}"
        return await self.keep_result(job_id, attempt, number, name, self._fetched(remote.url))

    async def keep_result(
        self, job_id: str, attempt: int, number: int, name: str, chunks: AsyncIterator[bytes]
    ) -> JobFile:
        """The same from the file's bytes, which are not read if the file is stored already."""
        run = c.FileRun(arg.job_id(job_id), attempts=attempt)
        account = (await self.part(run.job_id)).account
        command = c.BeginFile(result_id(run.job_id, attempt, number), account, clean_name(name), run=run)
        file = await self._stored(command, chunks)
        return JobFile(file.id, FileFacts(file.id, file.name, file.media_type, file.size))

    async def _fetched(self, url: str) -> AsyncIterator[bytes]:
        longest_s = self.engine.policy.upload_ms / 1_000
        most = self.limits.file_bytes
        opened = self.outbound.stream("GET", url, timeout_s=longest_s, most_bytes=most, redirects=REDIRECTS)
        async with opened as stream:
            if stream.status != 200:
                host = urlsplit(url).hostname
                raise OutboundError(f"{host} answered {stream.status} instead of a result's file", was_sent=True)
            async for chunk in stream:
                yield chunk

    # Sweeping

    async def sweep_files(self) -> int:
        """Removes expired files and deletes the bytes of removed ones; returns how many files it changed."""
        swept = 0
        for _ in range(ROUNDS):
            due = await self.engine.store.read(ListDueFiles(DUE))
            changed = 0
            for file in due:
                if file.state == "removed":
                    changed += await self._delete_bytes(file)
                else:
                    changed += await self._expire(file)
            swept += changed
            if not changed:
                break
        return swept

    async def _expire(self, file: File) -> bool:
        outcome = await self.engine.call(c.ExpireFile(file.id, file.account_id, file.job_id))
        has_changed = isinstance(outcome, Forgotten) and outcome.changed
        if has_changed and file.state == "uploading":
            # The row stays in case bytes arrive late; those that are there already need not stay as long.
            dead = (await self.queries.files_by_id([file.id])).get(file.id)
            if dead is not None and dead.state == "removed":
                await self._delete_bytes(dead)
        return has_changed

    async def _delete_bytes(self, file: File) -> bool:
        """Deletes a removed file's bytes, then its row, once that may go. If it cannot, a later sweep tries again."""
        try:
            await self.file_access.storage.delete(storage_key(file))
            outcome = await self.engine.call(c.ForgetFile(file.id))
        except (StorageError, StoreError) as error:
            log.warning("the bytes of file %s could not be deleted; a later sweep tries again: %s", file.id, error)
            return False
        return isinstance(outcome, Forgotten) and outcome.changed

    # Storing and reading bytes

    async def _stored(self, command: c.BeginFile, chunks: AsyncIterator[bytes]) -> File:
        """Begins a file, stores its bytes and makes it usable; on failure leaves nothing behind. A file that is stored
        already stays as it is."""
        loop, longest_s = asyncio.get_running_loop(), self.engine.policy.upload_ms / 1_000
        ends_at = loop.time() + longest_s
        file = (await self._ask(command, FileChanged)).file
        if file.state == "stored":
            return file
        try:
            # The time limit counts from before the file was begun. A process that was suspended past it must send
            # nothing: the sweeper may have removed the file already, and would never delete bytes that arrive later.
            if loop.time() >= ends_at:
                raise TimeoutError
            if command.run is not None:
                chunks = without_place_and_device(chunks)
            async with asyncio.timeout_at(ends_at):
                with _storage_errors(file):
                    stored = await self.file_access.storage.put(storage_key(file), chunks, file.size)
        except BaseException as error:
            await self._abandon(file)
            if isinstance(error, TimeoutError):
                words = f"the upload took longer than {longest_s:g} s, and was given up; send a smaller file."
                raise Refused.of(Refusal("INVALID_STATE", words)) from None
            raise
        return await self._kept(file, stored, command.run)

    async def _kept(self, file: File, stored: StoredBytes, run: c.FileRun | None = None) -> File:
        """Inspects the stored bytes and makes the file usable; on failure leaves nothing behind."""
        try:
            with _storage_errors(file):
                media_type, problem = await self.file_access.inspected(storage_key(file), stored)
            if problem is not None:
                raise Refused.of(Refusal("INVALID_FILE", f"{problem}; it was not kept."))
            command = c.StoreFile(file.id, file.account_id, stored.size, media_type, stored.digest, run)
            return (await self._ask(command, FileChanged)).file
        except BaseException:
            await self._abandon(file)
            raise

    async def _abandon(self, file: File) -> None:
        """Removes all of a file, even while the caller is being cancelled."""
        await asyncio.shield(asyncio.ensure_future(self._remove_all(file)))

    async def _remove_all(self, file: File) -> None:
        with suppress(StoreError, Refused):
            outcome = await self.engine.call(c.RemoveFile(file.id, file.account_id, True, file.expires_at))
            if isinstance(outcome, FileChanged) and outcome.file.state == "removed":
                await self._delete_bytes(outcome.file)
            elif isinstance(outcome, Refusal) and outcome.code == "NOT_FOUND":
                # The sweeper was faster, and may have deleted the bytes before the last of them arrived.
                with suppress(StorageError):
                    await self.file_access.storage.delete(storage_key(file))

    async def _bytes_of(self, file: File) -> AsyncIterator[bytes]:
        with _storage_errors(file):
            async with aclosing(self.file_access.storage.get(storage_key(file))) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _stored_file(self, file_id: str, account: str | None) -> File:
        file = await self._file(file_id, account)
        if file.state == "uploading":
            words = f"file {file.id} is still being uploaded; nothing was changed. Try again when the upload has ended."
            raise Refused.of(Refusal("INVALID_STATE", words, details={"state": file.state}))
        return file

    async def _file(self, file_id: str, account: str | None, *, is_any: bool = False) -> File:
        """The file; a removed file is found only with `is_any`."""
        asked = arg.job_id(file_id, "file")
        file = (await self.queries.files_by_id([asked])).get(asked)
        owner = arg.optional_name(account, "an account")
        if file is None or owner not in (None, file.account_id) or (file.state == "removed" and not is_any):
            raise Refused.of(no_file(asked))
        return file


@contextmanager
def _storage_errors(file: File) -> Iterator[None]:
    """Raises errors of the storage as refusals, except `FileMissing`, whose meaning depends on the caller."""
    try:
        yield
    except FileTooLarge as error:
        words = (
            f"{error}: that is the limit for one file, or all that is left of the account's storage. It was not kept."
        )
        raise Refused.of(Refusal("TOO_LARGE", words, details={"limit": file.size})) from None
    except (StorageAway, StorageFull) as error:
        log.warning("the file storage cannot be used: %s", error)
        words = f"{error}; nothing was stored." if isinstance(error, StorageFull) else f"{error}."
        raise Refused.of(Refusal("OVERLOADED", words, retry_after_s=5.0)) from None


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise arg.invalid(f"size must be a whole number of bytes from 0 up, not {value!r}")
    return value


def _valid_s(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= LONGEST_S:
        raise arg.invalid(f"ttl_s must be a number of seconds from 1 to {LONGEST_S} (a week), not {value!r}")
    return int(value)


def ids_in(value: Any) -> Iterator[str]:
    """The strings of a payload that could be ids of files."""
    ahead = [value]
    while ahead:
        part = ahead.pop()
        if isinstance(part, str) and len(part) == 36:
            with suppress(ValueError):
                yield str(uuid.UUID(part))
        elif isinstance(part, dict):
            ahead += part.values()
        elif isinstance(part, list):
            ahead += part
