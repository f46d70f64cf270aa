"""Bytes are stored whole or not at all, on local disk and in S3, and every failure has its own error."""

import asyncio
import contextlib
import hashlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ficha.files import s3 as s3_module
from ficha.files.storage import (
    FileMissing,
    FileStorage,
    FileTooLarge,
    StorageAway,
    StorageFull,
    StoredBytes,
    open_storage,
)
from tests.chaos.space import small_disk
from tests.support.s3_server import S3Server
from tests.support.waiting import until, until_sync

KEY = "account/file-1"
PART = s3_module.PART_BYTES


class Cut(Exception):
    """The sender went away."""


async def chunks(*contents: bytes, cut: bool = False) -> AsyncIterator[bytes]:
    for content in contents:
        yield content
    if cut:
        raise Cut


async def read(storage: FileStorage, key: str = KEY, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in storage.get(key, start, end)])


async def test_what_is_stored_is_counted_digested_and_read_back(storage: FileStorage) -> None:
    content = bytes(range(256)) * 40
    stored = await storage.put(KEY, chunks(content[:100], b"", content[100:]), 1_000_000)
    assert stored == StoredBytes(len(content), hashlib.sha256(content).hexdigest(), content[:4096])
    assert await read(storage) == content
    assert await storage.size(KEY) == len(content)


async def test_an_empty_file_is_a_file(storage: FileStorage) -> None:
    assert (await storage.put(KEY, chunks(), 10)).size == 0
    assert await storage.size(KEY) == 0
    assert await read(storage) == b""


@pytest.mark.parametrize("size", [PART - 1, PART, PART + 1, 2 * PART])
async def test_files_around_the_size_of_a_part_are_whole(storage: FileStorage, size: int) -> None:
    content = os.urandom(1000) * (size // 1000 + 1)
    step = 300_000
    sent = [content[at : min(at + step, size)] for at in range(0, size, step)]
    stored = await storage.put(KEY, chunks(*sent), size)
    assert (stored.size, stored.digest) == (size, hashlib.sha256(content[:size]).hexdigest())
    assert await read(storage) == content[:size]


async def test_a_part_of_a_file_is_read_by_range(storage: FileStorage) -> None:
    content = os.urandom(PART + 5000)
    await storage.put(KEY, chunks(content), len(content))
    for start, end in [
        (0, 1),
        (10, 10),
        (5000, PART + 100),
        (PART + 4999, None),
        (PART, PART + 9999),
        (2 * PART, 3 * PART),
    ]:
        assert await read(storage, start=start, end=end) == content[start:end]


async def test_a_second_put_replaces_the_first(storage: FileStorage) -> None:
    await storage.put(KEY, chunks(b"long content"), 100)
    await storage.put(KEY, chunks(b"short"), 100)
    assert await read(storage) == b"short"


async def test_a_file_at_its_limit_is_stored_and_one_byte_more_is_refused(storage: FileStorage) -> None:
    await storage.put(KEY, chunks(b"12345", b"67890"), 10)
    with pytest.raises(FileTooLarge, match="larger than the 10 bytes"):
        await storage.put(KEY, chunks(b"12345", b"678901"), 10)
    assert await read(storage) == b"1234567890"


async def test_a_large_file_that_is_too_large_leaves_nothing(
    storage: FileStorage, tmp_path: Path, request: pytest.FixtureRequest, bucket: str
) -> None:
    """Also nothing hidden: no unfinished file on disk, no unfinished upload in the bucket."""
    with pytest.raises(FileTooLarge):
        await storage.put(KEY, chunks(*[b"x" * 1_000_000] * 20), 2 * PART)
    await assert_nothing_is_left(storage, request, tmp_path, bucket)


@pytest.mark.parametrize("sent", [100, 2 * PART + 1])
async def test_an_upload_that_is_cut_in_the_middle_leaves_nothing(
    storage: FileStorage, tmp_path: Path, request: pytest.FixtureRequest, bucket: str, sent: int
) -> None:
    with pytest.raises(Cut):
        await storage.put(KEY, chunks(b"x" * sent, cut=True), 10 * PART)
    await assert_nothing_is_left(storage, request, tmp_path, bucket)


@pytest.mark.parametrize("sent", [100, 2 * PART + 1])
async def test_an_upload_that_is_cancelled_leaves_nothing(
    storage: FileStorage, tmp_path: Path, request: pytest.FixtureRequest, bucket: str, sent: int
) -> None:
    waits = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * (sent // 4)
        waits.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(storage.put(KEY, stalled(), 10 * PART))
    await waits.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    await assert_nothing_is_left(storage, request, tmp_path, bucket)


async def test_an_upload_that_is_cancelled_before_its_first_byte_leaves_neither_a_file_nor_an_open_one(
    tmp_path: Path,
) -> None:
    storage = open_storage(f"file:{tmp_path}/files")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        upload = asyncio.create_task(storage.put(KEY, chunks(b"x"), 10))
        # The task now waits for the thread that makes the file.
        await asyncio.sleep(0)
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
    assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []
    assert len(os.listdir("/proc/self/fd")) <= before
    await storage.close()


async def assert_nothing_is_left(
    storage: FileStorage, request: pytest.FixtureRequest, tmp_path: Path, bucket: str
) -> None:
    assert await storage.size(KEY) is None
    if request.node.callspec.params["storage"] == "local_disk":
        assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []
    else:
        server: S3Server = request.getfixturevalue("s3")
        assert (server.unfinished(bucket), server.keys(bucket)) == (0, 0)


async def test_an_upload_that_fails_keeps_the_file_that_was_there(storage: FileStorage) -> None:
    await storage.put(KEY, chunks(b"first"), 100)
    with pytest.raises(Cut):
        await storage.put(KEY, chunks(b"second", cut=True), 100)
    assert await read(storage) == b"first"


async def test_an_error_of_the_sender_is_not_one_of_the_storage(storage: FileStorage) -> None:
    async def lost() -> AsyncIterator[bytes]:
        yield b"x" * (PART + 1)
        raise ConnectionResetError("the peer went away")

    with pytest.raises(ConnectionResetError):
        await storage.put(KEY, lost(), 10 * PART)


async def test_a_deleted_file_is_gone_and_deleting_it_again_is_no_error(storage: FileStorage) -> None:
    await storage.put(KEY, chunks(b"x"), 10)
    await storage.delete(KEY)
    await storage.delete(KEY)
    assert await storage.size(KEY) is None
    with pytest.raises(FileMissing):
        await read(storage)
    with pytest.raises(FileMissing):
        await read(storage, end=5)


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/b.c", ".incoming/x", "a\0b", "a/é", "a\n"]
)
async def test_a_key_that_could_be_a_path_is_an_error(storage: FileStorage, key: str) -> None:
    with pytest.raises(ValueError, match="storage key"):
        await storage.put(key, chunks(b"x"), 10)
    for call in (storage.delete, storage.size):
        with pytest.raises(ValueError, match="storage key"):
            await call(key)
    with pytest.raises(ValueError, match="storage key"):
        await read(storage, key)


@pytest.mark.parametrize(
    "url",
    ["", "files", "http://x/y", "file:", "file://host/folder", "s3:", "s3:///prefix", "s3://k:s@bucket/x",
     "s3://bucket/../x", "s3://bucket?color=red", "s3://bucket?endpoint=ftp://x", "s3://bucket?virtual_hosts=yes"],
)  # fmt: skip
def test_a_url_that_names_no_storage_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|key"):
        open_storage(url)


# Local disk


async def test_files_on_disk_are_private_and_have_no_name_of_a_user(local_disk: FileStorage, tmp_path: Path) -> None:
    await local_disk.put(KEY, chunks(b"x"), 10)
    path = tmp_path / "files" / KEY
    assert path.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in path.parents[:2]} == {0o700}


@pytest.fixture(params=["a full disk", "a limit on the size of files"])
def no_room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """A file system of one MiB where one may be mounted; else, and also, a limit that the system sets on a file."""
    (tmp_path / "files").mkdir()
    with contextlib.ExitStack() as stack:
        if "disk" not in request.param or stack.enter_context(small_disk(tmp_path / "files", 1)) is None:
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_048_576, before[1]))
            stack.callback(resource.setrlimit, resource.RLIMIT_FSIZE, before)
        yield


async def test_a_full_disk_is_told_and_leaves_room_again(no_room: None, local_disk: FileStorage) -> None:
    await local_disk.put("account/small", chunks(b"x" * 100_000), 200_000)
    with pytest.raises(StorageFull, match="full"):
        await local_disk.put(KEY, chunks(*[b"x" * 500_000] * 6), 10_000_000)
    assert await local_disk.size(KEY) is None
    await local_disk.put("account/other", chunks(b"x" * 700_000), 1_000_000)


async def test_a_disk_that_is_gone_is_away_and_no_file_is_called_missing(
    local_disk: FileStorage, tmp_path: Path
) -> None:
    await local_disk.put(KEY, chunks(b"x"), 10)
    (tmp_path / "files").rename(tmp_path / "elsewhere")
    for call in (local_disk.size, local_disk.delete, lambda key: read(local_disk, key)):
        with pytest.raises(StorageAway):
            await call(KEY)
    with pytest.raises(StorageAway):
        await local_disk.put(KEY, chunks(b"y"), 10)
    (tmp_path / "elsewhere").rename(tmp_path / "files")
    assert await read(local_disk) == b"x"


WRITER = """
import asyncio, sys
from ficha.files.storage import open_storage

async def endless():
    while True:
        yield b"x" * 2_000_000
        print("sent", flush=True)
        await asyncio.sleep(0.01)

asyncio.run(open_storage(sys.argv[1]).put("account/file-1", endless(), 10**12))
"""


def test_what_a_killed_process_was_writing_is_removed_by_the_next_start(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/files"
    incoming = tmp_path / "files" / ".incoming"
    with subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        until_sync(lambda: any(path.stat().st_size for path in incoming.iterdir()))
        open_storage(url)
        assert len(list(incoming.iterdir())) == 1, "a file that is still written is left alone"
        process.send_signal(signal.SIGKILL)
    open_storage(url)
    assert list(incoming.iterdir()) == []


# S3


async def test_a_store_that_does_not_answer_is_away(s3_keys: None) -> None:
    storage = open_storage("s3://bucket?endpoint=http://127.0.0.1:9", timeout_s=1.0, tries=2)
    for call in (storage.size, storage.delete, lambda key: read(storage, key)):
        with pytest.raises(StorageAway, match="cannot be reached"):
            await call(KEY)
    for size in (1, PART + 1):
        with pytest.raises(StorageAway, match="cannot be reached"):
            await storage.put(KEY, chunks(b"x" * size), 2 * PART)


async def test_a_bucket_that_is_not_there_is_away_and_no_file_is_called_missing(s3: S3Server, s3_keys: None) -> None:
    storage = open_storage(f"s3://no-such-bucket?endpoint={s3.endpoint}")
    for size in (1, PART + 1):
        with pytest.raises(StorageAway):
            await storage.put(KEY, chunks(b"x" * size), 2 * PART)
    with pytest.raises(StorageAway):
        await read(storage, end=10)


async def test_a_store_that_breaks_off_in_the_middle_of_an_upload_is_away(
    s3: S3Server, s3_storage: FileStorage, bucket: str
) -> None:
    async def deletes_the_bucket() -> AsyncIterator[bytes]:
        yield b"x" * (2 * PART)
        await until(lambda: s3.unfinished(bucket))
        await asyncio.to_thread(s3.remove, bucket)
        for _ in range(8):
            yield b"x" * PART

    with pytest.raises(StorageAway):
        await s3_storage.put(KEY, deletes_the_bucket(), 20 * PART)


async def test_a_full_store_is_told_from_one_that_is_away(s3_keys: None) -> None:
    """A store that has no room says so in a 507, as MinIO does."""

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<Error><Code>XMinioStorageFull</Code><Message>no room</Message></Error>"
        writer.write(b"HTTP/1.1 507 Insufficient Storage\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuses, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        storage = open_storage(f"s3://bucket?endpoint=http://127.0.0.1:{port}", timeout_s=5.0, tries=1)
        with pytest.raises(StorageFull):
            await storage.put(KEY, chunks(b"x"), 10)


@pytest.mark.parametrize("words", ["in 507.12ms", "in 416ms", "/bucket/507/416", "QuotaExceeded/file"])
def test_numbers_in_an_error_are_not_taken_for_the_answer_of_the_store(words: str) -> None:
    text = f"Error performing GET http://127.0.0.1:507/bucket/x {words}, after 1 retries - HTTP error: sending request"
    assert not s3_module.FULL.search(text)
    assert not s3_module.BEYOND_THE_END.search(text)


@pytest.fixture
async def cutting_store(
    s3: S3Server, s3_storage: FileStorage, bucket: str
) -> AsyncIterator[tuple[FileStorage, list[int]]]:
    """The same bucket by way of a proxy that breaks off each answer after as many bytes as the list says, and passes
    the others whole."""
    cuts: list[int] = []
    host, port = s3.endpoint.removeprefix("http://").split(":")
    handlers: set[asyncio.Task[None]] = set()

    async def proxied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            back.write(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            left = cuts.pop(0) if cuts else 10**9
            while left > 0 and (chunk := await there.read(min(left, 65_536))):
                left -= len(chunk)
                writer.write(chunk)
                await writer.drain()
        finally:
            for one in (back, writer):
                one.transport.abort()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.create_task(proxied(reader, writer)))

    async with await asyncio.start_server(accepted, "127.0.0.1", 0) as server:
        endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield open_storage(f"s3://{bucket}/some/prefix?endpoint={endpoint}", timeout_s=5.0, tries=2), cuts
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


async def test_a_download_that_breaks_off_goes_on_where_it_was(
    s3_storage: FileStorage, cutting_store: tuple[FileStorage, list[int]]
) -> None:
    content = os.urandom(5_000_000)
    await s3_storage.put(KEY, chunks(content), len(content))
    storage, cuts = cutting_store
    cuts += [2_000_000, 2_500_000]
    assert await read(storage) == content
    cuts += [2_000_000]
    assert await read(storage, start=100, end=4_999_999) == content[100:4_999_999]
    assert cuts == []


async def test_a_file_that_is_replaced_while_it_is_read_is_not_mixed_with_the_new_one(
    s3_storage: FileStorage, cutting_store: tuple[FileStorage, list[int]]
) -> None:
    await s3_storage.put(KEY, chunks(b"a" * 5_000_000), 5_000_000)
    storage, cuts = cutting_store
    cuts.append(2_000_000)
    reading = storage.get(KEY)
    assert set(await anext(reading)) == {ord("a")}
    await s3_storage.put(KEY, chunks(b"b" * 5_000_000), 5_000_000)
    with pytest.raises(StorageAway):
        [chunk async for chunk in reading]
