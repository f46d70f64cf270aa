"""Files: uploaded as they stream in or straight to the storage, downloaded by their owner or by a signed link."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from ... import validation as arg
from ...core.commands import BeginFile, RemoveFile, StoreFile
from ...core.outcomes import Refusal
from ...core.refusals import no_file
from ...engine.views import FileLink, FileView, Page, UploadView, Whole
from ...errors import Refused
from ...files.links import FileLinks
from ...files.storage import FileMissing, StorageError
from ...signing import Signer
from .. import wire as s
from ..guard import Account, AccountReader, Call, Guard, JobReader
from ..identity.callers import Caller, unauthenticated
from ..openapi import gives
from ..problems import EdgeError
from ..request_body import body
from ..responses import answer
from .parameters import Cursor, ForAccount, Limit

routes = APIRouter(prefix="/api", tags=["files"])

OVERHEAD_BYTES: Final = 65_536
"""How many bytes of a body may be other than its file. The length of a body bounds the size of its file only as closely
as this, unless the sender states the size."""


def upload_body() -> Any:
    """A dependency that reads the JSON of an upload that goes straight to the storage; None where the body is the file
    itself, which is not read here."""
    read_json = body(s.UploadBody).dependency

    async def read(request: Request) -> s.UploadBody | None:
        return None if _is_file(request) else await read_json(request)

    read.kind = s.UploadBody  # type: ignore[attr-defined]  # The OpenAPI document looks here.
    read.takes_file = True  # type: ignore[attr-defined]
    return Depends(read)


def _is_file(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


@routes.post("/uploads", summary="Upload a file")
@gives(UploadView, BeginFile, StoreFile, "INVALID_FILE", "INVALID_ARGUMENT", status=201)
async def upload(
    call: Account,
    asked: Annotated[s.UploadBody | None, upload_body()],
    account: ForAccount = None,
    reservation: Annotated[str | None, Query(max_length=100, description="The quota slot that its job uses.")] = None,
    name: Annotated[
        str | None, Query(min_length=1, max_length=255, description="The file's name, in place of the part's filename.")
    ] = None,
    size: Annotated[
        int | None, Query(ge=0, lt=2**53, description="The file's size in bytes, so that no more room is held for it.")
    ] = None,
) -> Response:
    """Stores one file, sent as multipart/form-data, as it streams in. Or, for a JSON body, returns a URL that takes the
    file straight into the storage; after sending it there, call `complete`."""
    named = call.account_if_any(account)
    if asked is not None:
        owner = call.account(asked.account)
        if (account, reservation, name, size) != (None, None, None, None):
            raise arg.invalid("with a JSON body, send account, name, size and reservation in the body")
        return answer(await _begun(call, owner, asked), 201)
    owner = call.account(named)
    call.usage.take("uploads")
    # A slow sender does not keep its account's other requests waiting.
    call.usage.leave_turn()
    return answer(UploadView(file=await _received(call, owner, reservation, name, size)), 201)


async def _begun(call: Call, owner: str, asked: s.UploadBody) -> UploadView:
    return await call.doing.begin_upload(
        owner,
        asked.name,
        asked.size,
        media_type=asked.media_type or "",
        reservation=asked.reservation,
    )


async def _received(call: Call, account: str, reservation: str | None, name: str | None, size: int | None) -> FileView:
    # Only here: it needs the extra `files`.
    from ...files.multipart import BadMultipart, MultipartLimits, UploadTooSlow, upload_parts

    request = call.request
    limits = MultipartLimits(idle_s=call.settings.body_s, total_s=call.app.policy.upload_ms / 1_000)
    given = request.headers.get("content-length", "")
    most = size if size is not None else int(given) if given.isdecimal() and len(given) < 16 else None
    least = size if size is not None else max(0, (most or 0) - OVERHEAD_BYTES)
    try:
        parts = upload_parts(request.headers.get("content-type"), request.stream(), limits)
        async with aclosing(parts):
            async for part in parts:
                if part.file_name is None:
                    await part.text()
                    continue
                return await call.doing.receive(
                    account,
                    name or part.file_name,
                    _whole(part.chunks(), parts),
                    least,
                    most,
                    reservation=reservation,
                )
    except BadMultipart as error:
        raise arg.invalid(str(error)) from None
    except UploadTooSlow as error:
        raise EdgeError("TIMEOUT", f"{error}; nothing was changed") from None
    raise arg.invalid("the upload has no file: send a part with a filename")


async def _whole(chunks: AsyncIterator[bytes], parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Yields the file's bytes. Before they count as whole, reads the rest of the upload and refuses a second file."""
    async for chunk in chunks:
        yield chunk
    async for part in parts:
        if part.file_name is not None:
            raise arg.invalid("an upload has one file: send each by itself")
        await part.text()


@routes.post("/uploads/{file_id}/complete", summary="Say that an upload is complete")
@gives(FileView, StoreFile, "INVALID_FILE", "INVALID_STATE", "TOO_LARGE")
async def complete(call: Account, file_id: str) -> Response:
    """Makes a file of what was sent straight to the storage. Repeating it changes nothing."""
    return answer(await call.doing.complete_upload(file_id, account=call.owner))


@routes.get("/files", summary="List files")
@gives(Page[FileView], "NOT_FOUND")
async def files(
    call: AccountReader,
    role: Annotated[Literal["input", "result"] | None, Query(description="Only inputs, or only results.")] = None,
    account: ForAccount = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """A page of files that are not removed, newest first."""
    page = await call.app.files(
        call.account_if_any(account), role=role, after=call.cursor("files", cursor), limit=limit
    )
    return answer(call.page("files", page))


@routes.get("/jobs/{job_id}/files", summary="List a job's files")
@gives(Whole[FileView], "NOT_FOUND")
async def job_files(call: JobReader, job_id: str) -> Response:
    """The files that the job's payload names, and those that it made."""
    job = await call.job(job_id)
    return answer(Whole(await call.app.job_files(job.id)))


@routes.get("/files/{file_id}/info", summary="Look at a file")
@gives(FileView, "NOT_FOUND")
async def info(call: AccountReader, file_id: str) -> Response:
    """What is known of a file."""
    return answer(await call.app.file(file_id, account=call.owner))


@routes.get("/files/{file_id}/link", summary="Make a link to a file")
@gives(FileLink, "INVALID_STATE", "NOT_FOUND")
async def link(
    call: AccountReader,
    file_id: str,
    ttl_s: Annotated[int, Query(ge=1, le=604_800, description="For how many seconds the link is valid.")] = 3_600,
) -> Response:
    """A link from which anyone who has it can read the file, until it expires."""
    return answer(await call.app.link_with(_links(call.request), file_id, ttl_s, call.owner))


@routes.delete("/files/{file_id}", summary="Remove a file")
@gives(FileView, RemoveFile)
async def remove(call: Account, file_id: str) -> Response:
    """Removes a file. A job that takes it and has not read it yet will fail, and be refunded."""
    return answer(await call.doing.remove_file(file_id, account=call.owner))


class FileGuard(Guard):
    """Admits who may call for the account, and whoever has a signed link to the file."""

    async def __call__(self, request: Request) -> Call:
        signature = request.query_params.get("signature")
        if signature is None:
            return await super().__call__(request)
        self.check(request)
        app = await request.app.state.opening()
        expires = request.query_params.get("expires", "")
        file_id: str = request.path_params["file_id"]
        if not _links(request).is_valid(file_id, expires, signature, time.time()):
            raise unauthenticated("the link is not valid, or has expired")
        return Call(request, app, Caller(scope="service", name="a link"))


def _links(request: Request) -> FileLinks:
    """Links made and checked with the application's secret and address; where it lacks one, with this server's."""
    state = request.app.state
    signer = state.ficha.signer or Signer(state.settings.secret)
    return FileLinks(signer, state.ficha.public_url or str(request.base_url))


@routes.get("/files/{file_id}", summary="Download a file")
@gives(None, "INVALID_STATE", "NOT_FOUND", media_types=("application/octet-stream",))
async def download(
    call: Annotated[Call, Depends(FileGuard("user", "service", "admin", "viewer"))],
    file_id: str,
    inline: Annotated[bool, Query(description="Whether a browser may show it in place, if its kind is safe.")] = False,
    expires: Annotated[str | None, Query(max_length=20, description="From a signed link.")] = None,
    signature: Annotated[str | None, Query(max_length=100, description="From a signed link.")] = None,
) -> Response:
    """The file's bytes: whole, or with `Range` a part. For its owner, or whoever has a link to it."""
    # Only here: most requests are for something else.
    from ...files.downloads import Download

    file, key = await call.app.stored_file(file_id, call.owner)
    if signature is not None:
        # A download by a link counts against the account that the file belongs to.
        call.usage.begin(Caller(scope="user", account=file.account_id))
    call.request.state.sends_file = True
    return _Answering(
        Download(
            call.app.file_access.storage,
            key,
            size=file.size,
            digest=file.digest,
            media_type=file.media_type,
            name=file.name,
            inline=inline,
        ),
        file.id,
    )


class _Answering(Response):
    """A download whose storage may fail before its first byte is sent."""

    def __init__(self, download: Response, file_id: str) -> None:
        self._download = download
        self._file_id = file_id
        self.background = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._download(scope, receive, send)
        except FileMissing:
            raise Refused.of(no_file(self._file_id)) from None
        except StorageError as error:
            raise Refused.of(Refusal("OVERLOADED", f"{error}.", retry_after_s=5.0)) from None
