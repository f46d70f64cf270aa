"""Files: upload, look, download, remove; and links to them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import uuid4

from .. import validation as arg
from ..core.records import FileRole
from ..engine.views import FileLink, FileView, Page, UploadView, Whole
from ..outbound import Answer
from .effects import Emit, Flow, Open, Read, Send, Stream
from .file_form import FileForm
from .operation import iteration, operation
from .problems import trouble_of
from .sending import RequestMethods, fields

UPLOAD_S: Final = 120.0
"""How long the answer to an upload may take after its last byte: the server examines the file first."""


class FileMethods(RequestMethods):
    @operation
    def upload(
        self,
        data: bytes | str | os.PathLike[str],
        *,
        name: str | None = None,
        account: str | None = None,
        reservation: str | None = None,
    ) -> Flow[FileView]:
        """Uploads a file, as it is read: bytes, or the path of one.

        name: the file's name. Defaults to that of the path. reservation: the quota slot that its job will use.
        """
        given = data if isinstance(data, bytes) else Path(data)
        called = name or ("file" if isinstance(given, bytes) else given.name)
        form = FileForm.of(called, given, f"ficha-{uuid4().hex}")
        query = fields({"account": account, "reservation": reservation, "size": form.size})
        request = Send(
            method="POST", path="/api/uploads", query=query, form=form, headers=form.headers, read_s=UPLOAD_S
        )
        return (yield from self.decoded(request, UploadView)).file

    @operation
    def begin_upload(
        self,
        name: str,
        size: int,
        *,
        media_type: str | None = None,
        account: str | None = None,
        reservation: str | None = None,
    ) -> Flow[UploadView]:
        """Begins an upload that goes straight to the storage: send the bytes to the `url` of the answer, then call
        `complete_upload`."""
        asked = {"name": name, "size": size, "media_type": media_type, "account": account, "reservation": reservation}
        return self.post("/api/uploads", UploadView, asked)

    @operation
    def complete_upload(self, file_id: str) -> Flow[FileView]:
        """Makes a file of what was sent straight to the storage."""
        return self.post(f"/api/uploads/{arg.job_id(file_id, 'file')}/complete", FileView, harmless=True)

    @operation
    def file(self, file_id: str) -> Flow[FileView]:
        """What is known of a file."""
        return self.get(f"/api/files/{arg.job_id(file_id, 'file')}/info", FileView)

    @operation
    def files(
        self,
        account: str | None = None,
        *,
        role: FileRole | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Flow[Page[FileView]]:
        """A page of files, newest first."""
        return self.get("/api/files", Page[FileView], account=account, role=role, cursor=after, limit=limit)

    @operation
    def job_files(self, job_id: str) -> Flow[list[FileView]]:
        """The files that a job's payload names, and those that it made."""
        return (yield from self.get(f"/api/jobs/{arg.job_id(job_id)}/files", Whole[FileView])).items

    @operation
    def file_link(self, file_id: str, *, ttl_s: int = 3_600) -> Flow[FileLink]:
        """A link from which anyone who has it can read the file for `ttl_s` seconds."""
        return self.get(f"/api/files/{arg.job_id(file_id, 'file')}/link", FileLink, ttl_s=ttl_s)

    @operation
    def remove_file(self, file_id: str) -> Flow[FileView]:
        """Removes a file."""
        request = Send(method="DELETE", path=f"/api/files/{arg.job_id(file_id, 'file')}", harmless=True)
        return self.decoded(request, FileView)

    @operation
    def download(self, file_id: str, to: str | os.PathLike[str] | None = None) -> Flow[bytes]:
        """A file's bytes. With `to` they are written to this path instead, which gets the file once it is complete, and
        nothing is returned."""
        if to is None:
            found = bytearray()
            yield from self._read_into(file_id, found.extend)
            return bytes(found)
        target = Path(to)
        part = target.with_name(f".{target.name}.{uuid4().hex[:12]}")
        try:
            with part.open("xb") as file:
                yield from self._read_into(file_id, file.write)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return b""

    @iteration
    def read_file(self, file_id: str) -> Stream[bytes]:
        """A file's bytes, piece by piece."""
        yield from self._opened(file_id)
        while piece := (yield Read()):
            yield Emit(piece)

    def _read_into(self, file_id: str, take: Callable[[bytes], object]) -> Flow[None]:
        yield from self._opened(file_id)
        while piece := (yield Read()):
            take(piece)

    def _opened(self, file_id: str) -> Flow[None]:
        """Opens the file as a stream, which is not retried, since the caller may have taken a part already."""
        path = f"/api/files/{arg.job_id(file_id, 'file')}"
        headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
        answer: Answer = yield Open(Send(method="GET", path=path, headers=headers, harmless=True))
        if answer.status != 200:
            raise trouble_of(answer, self.url)
