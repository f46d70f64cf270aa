"""Files in a bucket of S3 or of a store that speaks its protocol, over obstore.

obstore finds the credentials, signs, retries and sends parts in parallel. A file that fits in one part is one PUT; a
larger one is a multipart upload, which S3 shows as an object only once it is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from ..extras import needs_extra
from .s3_signing import Credentials, presigned
from .storage import (
    INCOMING,
    NOT_UPLOADED,
    PIECE_BYTES,
    ByteCount,
    FileMissing,
    FileStorage,
    FileTooLarge,
    StorageAway,
    StorageError,
    StorageFull,
    StoredBytes,
    checked_key,
    pieces,
)

with needs_extra("files"):
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

PART_BYTES: Final = 8 * 1_048_576
"""The size of a part. S3 allows 10,000 parts, so the largest file has 78 GiB."""
PARTS_AT_ONCE: Final = 3
"""Parts of one file that are sent at the same time; an upload needs memory for about one part more."""
FULL: Final = re.compile(r"status code: 507\b|<Code>\w*(?:StorageFull|QuotaExceeded|InsufficientCapacity)</Code>")
BEYOND_THE_END: Final = re.compile(r"status code: 416\b")
HEADERS: Final = {"Content-Type": "application/octet-stream", "Content-Disposition": "attachment"}
"""The headers that the store itself sends with a file, to clients that bypass Ficha: no browser shows such a file."""


class S3Storage(FileStorage):
    """A bucket, or the part of it under a prefix.

    timeout_s: how long the store may take to answer a request, or to send the next bytes. tries: how often a request is
    sent, at most.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        virtual_hosts: bool = False,
        timeout_s: float = 60.0,
        tries: int = 4,
    ) -> None:
        for name in filter(None, prefix.split("/")):
            checked_key(name)
        self._tries = tries
        self._bucket = bucket
        self._prefix = "/".join(filter(None, prefix.split("/")))
        self._endpoint = (endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")) or ""
        self._region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        self._virtual_hosts = virtual_hosts
        options: dict[str, Any] = {"endpoint": self._endpoint} if self._endpoint else {}
        with _told_apart():
            self._store = S3Store(
                bucket,
                prefix=self._prefix or None,
                region=self._region,
                virtual_hosted_style_request=virtual_hosts,
                client_options={
                    "allow_http": self._endpoint.startswith("http:"),
                    "connect_timeout": timedelta(seconds=min(5.0, timeout_s)),
                    # The timeout of one read, because a download lasts as long as its reader takes.
                    "read_timeout": timedelta(seconds=timeout_s),
                    "timeout": timedelta(days=1),
                },
                retry_config={
                    "max_retries": tries - 1,
                    "retry_timeout": timedelta(seconds=timeout_s),
                    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=2)},
                },
                **options,
            )

    @classmethod
    def at(cls, url: str, **options: Any) -> S3Storage:
        """`s3://bucket/prefix?endpoint=…&region=…&virtual_hosts=1`. Credentials are never in the URL: they come from
        AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the machine's role."""
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        if unknown := given.keys() - {"endpoint", "region", "virtual_hosts"}:
            raise ValueError(f"an s3 URL takes endpoint, region and virtual_hosts, not {', '.join(sorted(unknown))}")
        if not parts.hostname or "@" in parts.netloc or parts.fragment:
            raise ValueError("an s3 URL is like s3://bucket/prefix?endpoint=https://…; credentials come from AWS_…")
        if "endpoint" in given and urlsplit(given["endpoint"]).scheme not in ("http", "https"):
            raise ValueError("the endpoint of an s3 URL begins with https:// or http://")
        virtual_hosts = given.pop("virtual_hosts", "0")
        if virtual_hosts not in ("0", "1"):
            raise ValueError("virtual_hosts of an s3 URL is 0 or 1")
        given_options: dict[str, Any] = {**given, **options}
        return cls(parts.hostname, parts.path, virtual_hosts=virtual_hosts == "1", **given_options)

    async def put(self, key: str, chunks: AsyncIterable[bytes], most_bytes: int) -> StoredBytes:
        key = checked_key(key)
        counted = ByteCount(most_bytes)
        async with aclosing(pieces(chunks, counted, PART_BYTES)) as parts:
            first: list[bytes] = await anext(parts, [])
            if counted.size < PART_BYTES:
                content = await asyncio.to_thread(_joined, first, counted)
                await self._write(key, content)
            else:
                await self._write_parts(key, first, parts, counted)
        return counted.stored()

    async def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Reads in one request, and in further ones from where it broke off: a store may not wait for a slow reader."""
        key = checked_key(key)
        tag: dict[str, Any] = {}
        failures = 0
        while end is None or start < end:
            wanted: Any = {"offset": start} if end is None else (start, end)
            try:
                with _told_apart():
                    try:
                        options: Any = {"range": wanted} | tag
                        found = await obstore.get_async(self._store, key, options=options)
                    except BaseError as error:
                        if BEYOND_THE_END.search(str(error)):
                            return
                        raise
                # The file may be replaced meanwhile, and the rest of another file would be garbage.
                tag, end = {"if_match": found.meta["e_tag"]}, found.range[1]
                stream = aiter(found.stream(PIECE_BYTES))
                while True:
                    with _told_apart():
                        piece = await anext(stream, None)
                    if piece is None:
                        break
                    start += len(piece)
                    failures = 0
                    yield bytes(piece)
                if start < end:
                    raise StorageAway
            except StorageAway:
                failures += 1
                if failures == self._tries or not tag:
                    raise

    async def delete(self, key: str) -> None:
        both = [checked_key(key), f"{INCOMING}/{key}"]
        with _told_apart():
            await obstore.delete_async(self._store, both)

    async def size(self, key: str) -> int | None:
        try:
            size: int = (await self._head(checked_key(key)))["size"]
            return size
        except FileMissing:
            return None

    async def presign_put(self, key: str, expires_s: int, size: int, media_type: str) -> str | None:
        return self._presigned(
            "PUT",
            f"{INCOMING}/{checked_key(key)}",
            expires_s,
            headers={"content-length": str(size), "content-type": media_type},
        )

    async def accept(self, key: str, most_bytes: int) -> StoredBytes:
        # What was accepted before stays, also while its file is inspected: more may have been uploaded since.
        if await self.size(key) is None:
            await self._move(f"{INCOMING}/{key}", key, most_bytes)
        # Only now is the size certain: more bytes could have been uploaded after the check above.
        counted = ByteCount(most_bytes)
        try:
            async with aclosing(self.get(key)) as chunks:
                async for chunk in chunks:
                    counted.count(chunk)
                    await asyncio.to_thread(counted.digest, chunk)
        except FileTooLarge:
            await self.delete(key)
            raise
        return counted.stored()

    async def _move(self, incoming: str, key: str, most_bytes: int) -> None:
        """Moves uploaded bytes to where nobody can change them."""
        try:
            if (await self._head(incoming))["size"] > most_bytes:
                await self.delete(key)
                raise FileTooLarge(most_bytes)
            with _told_apart():
                await obstore.copy_async(self._store, incoming, key)
                await obstore.delete_async(self._store, incoming)
        except FileMissing:
            # Another caller may have moved the file since.
            if await self.size(key) is None:
                raise FileMissing(NOT_UPLOADED) from None

    async def presign_get(self, key: str, expires_s: int, media_type: str, disposition: str) -> str | None:
        query = {"response-content-type": media_type, "response-content-disposition": disposition}
        return self._presigned("GET", checked_key(key), expires_s, query=query)

    async def _write(self, key: str, content: bytes) -> None:
        with _told_apart(is_write=True):
            await obstore.put_async(self._store, key, content, attributes=HEADERS, use_multipart=False)

    async def _write_parts(
        self, key: str, first: list[bytes], rest: AsyncIterator[list[bytes]], counted: ByteCount
    ) -> None:
        """Has obstore read and send the parts. obstore removes an incomplete upload if reading fails, but not if it is
        cancelled, so a cancelled caller makes the reading fail, and waits."""
        source = UploadParts(first, rest, counted)
        writing = asyncio.ensure_future(
            obstore.put_async(
                self._store,
                key,
                aiter(source),
                attributes=HEADERS,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )
        )
        try:
            with _told_apart(is_write=True):
                await asyncio.shield(writing)
        except asyncio.CancelledError:
            await source.stop()
            await asyncio.wait([writing])
            raise
        except StorageError:
            await source.stop()
            if source.failure is not None:
                raise source.failure from None
            raise

    async def _head(self, key: str) -> Any:
        with _told_apart():
            return await obstore.head_async(self._store, key)

    def _presigned(
        self,
        method: str,
        key: str,
        expires_s: int,
        headers: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
    ) -> str | None:
        credentials = Credentials.from_environment()
        if credentials is None:
            return None
        path = quote("/".join(filter(None, (self._prefix, key))))
        if self._virtual_hosts:
            base = self._endpoint or f"https://{self._bucket}.s3.{self._region}.amazonaws.com"
        else:
            base = f"{self._endpoint or f'https://s3.{self._region}.amazonaws.com'}/{self._bucket}"
        url = f"{base.rstrip('/')}/{path}"
        now = datetime.now(UTC)
        return presigned(credentials, self._region, method, url, now, expires_s, headers or {}, query or {})


def _joined(chunks: list[bytes], counted: ByteCount) -> bytes:
    content = b"".join(chunks)
    counted.digest(content)
    return content


class UploadParts:
    """The iterator from which obstore reads the parts of a file, until it is stopped."""

    def __init__(self, first: list[bytes], rest: AsyncIterator[list[bytes]], counted: ByteCount) -> None:
        self._first: list[bytes] | None = first
        self._rest = rest
        self._tally = counted
        self._reading: asyncio.Task[list[bytes] | None] | None = None
        self._is_stopped = False
        self.failure: Exception | None = None
        """The exception of the source of the bytes."""

    def __aiter__(self) -> UploadParts:
        return self

    async def __anext__(self) -> bytes:
        part, self._first = self._first, None
        if part is None:
            part = await self._next()
        if part is None:
            raise StopAsyncIteration
        return await asyncio.to_thread(_joined, part, self._tally)

    async def stop(self) -> None:
        """Makes the next part fail, and also one that is being waited for."""
        self._is_stopped = True
        if self._reading is not None and not self._reading.done():
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _next(self) -> list[bytes] | None:
        if self._is_stopped:
            raise StorageAway("the upload was stopped")
        self._reading = asyncio.ensure_future(self._read())
        await asyncio.wait([self._reading])
        if self._reading.cancelled():
            raise StorageAway("the upload was stopped")
        try:
            return self._reading.result()
        except Exception as error:
            self.failure = error
            raise

    async def _read(self) -> list[bytes] | None:
        return await anext(self._rest, None)


@contextlib.contextmanager
def _told_apart(is_write: bool = False) -> Iterator[None]:
    """Turns obstore's errors into those of a storage. Their texts name the request and the store's answer, so they are
    kept as the cause, for the log, and not shown to users."""
    try:
        yield
    except FileNotFoundError as error:
        # A missing bucket is not a missing file.
        if is_write or "NoSuchBucket" in str(error):
            raise StorageAway from error
        raise FileMissing from error
    except (BaseError, OSError, ValueError) as error:
        kind = StorageFull if FULL.search(str(error)) else StorageAway
        raise kind() from error
