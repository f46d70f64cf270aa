"""Files are told by their bytes, and what blows up when it is decoded is refused, by a process that dies alone."""

import asyncio
import contextlib
import gzip
import io
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ficha import Ficha, InspectionLimits, InvalidFile
from ficha.files.inspection import Inspected, Inspector, UnsafeFile
from ficha.files.sniffing import media_type_of
from ficha.files.storage import FileStorage, StorageAway, open_storage
from tests.files import bombs
from tests.support.waiting import until

KEY = "account/file-1"


@pytest.fixture(scope="module")
def shared() -> Iterator[Inspector]:
    inspector = Inspector()
    yield inspector
    asyncio.run(inspector.close())


@pytest.fixture
def inspector(shared: Inspector) -> Iterator[Inspector]:
    """With its child warm from the test before; limits are told with each file, but those of the process itself."""
    yield shared
    shared.limits = InspectionLimits()


@pytest.fixture
async def own_inspector() -> AsyncIterator[Callable[..., Inspector]]:
    made = []

    def new(**limits: float) -> Inspector:
        made.append(Inspector(InspectionLimits(**limits)))
        return made[-1]

    yield new
    for one in made:
        await one.close()


async def inspected(inspector: Inspector, storage: FileStorage, content: bytes, key: str = KEY) -> Inspected:
    async def chunks() -> AsyncIterator[bytes]:
        yield content

    stored = await storage.put(key, chunks(), 100_000_000)
    return await inspector.inspect(storage, key, stored)


@pytest.mark.parametrize("name", bombs.BOMBS)
async def test_what_does_harm_is_refused_in_clear_words(
    inspector: Inspector, local_disk: FileStorage, name: str
) -> None:
    make, words = bombs.BOMBS[name]
    with pytest.raises(UnsafeFile, match=words):
        await inspected(inspector, local_disk, make())


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF"])
async def test_an_image_is_told_with_its_size(inspector: Inspector, storage: FileStorage, kind: str) -> None:
    found = await inspected(inspector, storage, bombs.image(kind))
    assert found == Inspected(f"image/{kind.lower()}", 20, 10, 1)


SAMPLES = {
    "PNG": lambda: bombs.image("PNG", 40, 40),
    "JPEG": lambda: bombs.image("JPEG", 40, 40),
    "WEBP": lambda: bombs.image("WEBP", 40, 40),
    "TIFF": lambda: bombs.image("TIFF", 40, 40),
    "GIF": lambda: bombs.gif(4),
    "zip": lambda: bombs.zipped(b"a" * 200, bombs.zipped(b"b")),
    "tar.gz": lambda: gzip.compress(bombs.tar(b"a" * 200, bombs.zipped(b"b"))),
}


@given(st.sampled_from(sorted(SAMPLES)), st.lists(st.tuples(st.integers(8, 2_000), st.binary(min_size=1, max_size=4))))
def test_whatever_a_file_is_changed_to_it_is_told_or_refused(
    shared: Inspector, kind: str, changes: list[tuple[int, bytes]]
) -> None:
    content = bytearray(SAMPLES[kind]())
    for at, new in changes:
        content[at : at + len(new)] = new

    async def looked_into() -> None:
        with tempfile.TemporaryDirectory() as folder:
            storage = open_storage(f"file:{folder}/files")
            with contextlib.suppress(UnsafeFile):
                await inspected(shared, storage, bytes(content))
            await storage.close()

    asyncio.run(looked_into())


async def test_an_animation_is_told_with_its_frames(inspector: Inspector, local_disk: FileStorage) -> None:
    assert (await inspected(inspector, local_disk, bombs.gif(7))).frames == 7


async def test_an_archive_is_told_with_what_is_in_it(inspector: Inspector, storage: FileStorage) -> None:
    content = bombs.zipped(b"a" * 100, bombs.zipped(b"b" * 50), gzip.compress(b"c"), b"PK\x03\x04 but no zip", b"")
    found = await inspected(inspector, storage, content)
    assert found.media_type == "application/zip"
    assert found.entries == 7
    content = gzip.compress(bombs.tar(b"a" * 100, b"b"))
    found = await inspected(inspector, storage, content)
    assert (found.media_type, found.entries) == ("application/gzip", 3)


async def test_several_packed_streams_in_a_row_are_all_counted(inspector: Inspector, local_disk: FileStorage) -> None:
    content = gzip.compress(b"a" * 300_000) + gzip.compress(b"b" * 262_144) + b"\0" * 100
    assert (await inspected(inspector, local_disk, content)).unpacked == 562_144


async def test_what_is_neither_image_nor_archive_needs_no_child(
    own_inspector: Callable[..., Inspector], local_disk: FileStorage
) -> None:
    inspector = own_inspector()
    assert await inspected(inspector, local_disk, b"Hello.") == Inspected("text/plain")
    assert await inspected(inspector, local_disk, b"") == Inspected("text/plain")
    assert inspector._idle == []


@pytest.mark.parametrize(
    ("limits", "fits", "exceeds", "words"),
    [
        ({"pixels": 200}, lambda: bombs.image("PNG", 20, 10), lambda: bombs.image("PNG", 67, 3), "the 200 that"),
        ({"frames": 3}, lambda: bombs.gif(3), lambda: bombs.gif(4), "3 frames"),
        ({"total_pixels": 3}, lambda: bombs.gif(3), lambda: bombs.gif(4), "3 pixels"),
        ({"archive_entries": 3}, lambda: bombs.zipped(*"abc"), lambda: bombs.zipped(*"abcd"), "3 entries"),
        ({"archive_entries": 3}, lambda: bombs.tar(b"", b"", b""), lambda: bombs.tar(*[b""] * 4), "3 entries"),
        ({"archive_bytes": 9}, lambda: bombs.zipped(b"x" * 9), lambda: bombs.zipped(b"x" * 10), "the 9 bytes"),
        ({"archive_bytes": 9}, lambda: gzip.compress(b"x" * 9), lambda: gzip.compress(b"x" * 10), "the 9 bytes"),
        ({"archive_ratio": 1, "ratio_free_bytes": 0}, lambda: bombs.zipped(b"x" * 90),
         lambda: bombs.zipped(b"x" * 900), "1 times its size"),
        ({"archive_depth": 2}, lambda: bombs.nested(2), lambda: bombs.nested(3), "more than 2 deep"),
        ({"inner_archive_bytes": 200}, lambda: bombs.nested(2, b"x" * 50), lambda: bombs.nested(2, b"x" * 100),
         "larger than the 200 bytes"),
        ({"unreadable_archives": True}, lambda: b"7z\xbc\xaf\x27\x1c", None, ""),
    ],
)  # fmt: skip
async def test_each_limit_holds_at_its_edge(
    inspector: Inspector, local_disk: FileStorage, limits: dict, fits: Callable, exceeds: Callable | None, words: str
) -> None:
    inspector.limits = InspectionLimits(**limits)
    await inspected(inspector, local_disk, fits())
    if exceeds is not None:
        with pytest.raises(UnsafeFile, match=words):
            await inspected(inspector, local_disk, exceeds())


async def test_a_file_that_needs_too_much_memory_is_refused_and_the_next_one_is_not(
    own_inspector: Callable[..., Inspector], local_disk: FileStorage
) -> None:
    inspector = own_inspector(memory_bytes=400_000_000, pixels=10**9, total_pixels=10**9)
    with pytest.raises(UnsafeFile, match="needs more memory"):
        await inspected(inspector, local_disk, bombs.png(30_000, 30_000))
    await inspected(inspector, local_disk, bombs.image())


async def test_a_file_that_takes_too_much_processor_time_is_refused(
    own_inspector: Callable[..., Inspector], local_disk: FileStorage
) -> None:
    inspector = own_inspector(cpu_s=0, archive_bytes=10**12, archive_ratio=10**6)
    member = gzip.compress(bombs.ZEROS)
    with pytest.raises(UnsafeFile, match="more time or memory"):
        await inspected(inspector, local_disk, member * 300)
    await inspected(inspector, local_disk, bombs.image())


async def test_a_file_that_takes_too_long_is_refused_and_its_child_is_gone(
    own_inspector: Callable[..., Inspector], local_disk: FileStorage
) -> None:
    inspector = own_inspector()
    await inspected(inspector, local_disk, bombs.image())
    [child] = inspector._idle
    # A child that was stopped answers no more, as one that is caught in a decoder.
    os.kill(child._process.pid, signal.SIGSTOP)
    child._limits = msgspec.structs.replace(child._limits, timeout_s=0.05)
    with pytest.raises(UnsafeFile, match="more time or memory"):
        await inspected(inspector, local_disk, bombs.image())
    assert child._process.returncode == -signal.SIGKILL
    assert (await inspected(inspector, local_disk, bombs.image())).width == 20


async def test_a_child_that_died_is_replaced(own_inspector: Callable[..., Inspector], local_disk: FileStorage) -> None:
    inspector = own_inspector()
    await inspected(inspector, local_disk, bombs.image())
    [child] = inspector._idle
    child._process.kill()
    child._process.wait()
    with pytest.raises(UnsafeFile):
        await inspected(inspector, local_disk, bombs.image())
    await inspected(inspector, local_disk, bombs.image())


async def test_a_child_has_no_secrets_no_files_to_write_and_few_to_open(
    own_inspector: Callable[..., Inspector], local_disk: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FICHA_SECRET", "a secret of the server")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    inspector = own_inspector()
    await inspected(inspector, local_disk, bombs.image())
    [child] = inspector._idle
    process = Path(f"/proc/{child._process.pid}")
    environment = (process / "environ").read_bytes()
    assert b"secret" not in environment
    assert b"another" not in environment
    limits = {line[:25].strip(): line[25:].split()[0] for line in (process / "limits").read_text().splitlines()}
    assert limits["Max file size"] == "0"
    assert limits["Max core file size"] == "0"
    assert limits["Max open files"] == "32"
    assert limits["Max address space"] == str(inspector.limits.memory_bytes)
    # Its socket, the three standard ones, and nothing of the server.
    assert len(list((process / "fd").iterdir())) == 4


async def test_children_end_with_the_inspector(
    own_inspector: Callable[..., Inspector], local_disk: FileStorage
) -> None:
    inspector = own_inspector()
    await inspected(inspector, local_disk, bombs.image())
    [child] = inspector._idle
    await inspector.close()
    assert child._process.returncode is not None


async def test_at_most_so_many_are_decoded_at_once_and_one_of_each_account(
    own_inspector: Callable[..., Inspector], local_disk: FileStorage
) -> None:
    inspector = own_inspector(at_once=2)
    content = bombs.image("PNG", 300, 300)
    keys = [f"{owner}/file-{number}" for owner in ("one", "two", "three") for number in range(4)]
    found = await asyncio.gather(*(inspected(inspector, local_disk, content, key) for key in keys))
    assert len(found) == 12
    assert len(inspector._idle) == 2
    assert not inspector._owners
    # One account alone needs one child, however many files it sends.
    alone = own_inspector(at_once=2)
    await asyncio.gather(*(inspected(alone, local_disk, content, f"one/file-{number}") for number in range(4)))
    assert len(alone._idle) == 1


async def test_who_waits_too_long_is_told_to_try_again(
    own_inspector: Callable[..., Inspector], local_disk: FileStorage
) -> None:
    inspector = own_inspector(at_once=1, wait_s=0.05)
    await inspected(inspector, local_disk, bombs.image())
    [child] = inspector._idle
    os.kill(child._process.pid, signal.SIGSTOP)
    first = asyncio.create_task(inspected(inspector, local_disk, bombs.image(), "one/file"))
    await until(lambda: inspector._turns.locked())
    with pytest.raises(StorageAway, match="too many files"):
        await inspected(inspector, local_disk, bombs.image(), "two/file")
    os.kill(child._process.pid, signal.SIGCONT)
    assert (await first).width == 20


async def test_an_application_sets_the_limits_of_its_files(tmp_path: Path) -> None:
    limits = InspectionLimits(pixels=100)
    async with Ficha("memory:", files=f"file:{tmp_path}/files", inspection_limits=limits) as app:
        await app.open_account("ana")
        await app.upload("ana", "small.png", bombs.image("PNG", 10, 10))
        with pytest.raises(InvalidFile, match="more than the 100"):
            await app.upload("ana", "large.png", bombs.image("PNG", 101, 1))


@pytest.mark.parametrize("limits", [{"pixels": -1}, {"at_once": 0}, {"memory_bytes": 268_435_455}])
def test_limits_with_which_nothing_could_be_looked_into_are_an_error(limits: dict[str, int]) -> None:
    InspectionLimits(pixels=0, at_once=1, memory_bytes=268_435_456)
    with pytest.raises(ValueError, match=rf"InspectionLimits\.{next(iter(limits))} must"):
        InspectionLimits(**limits)


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (b"\0\0\0\x18ftypmp42", "video/mp4"),
        (b"\0\0\0\x14ftypqt  ", "video/quicktime"),
        (b"\0\0\0\x14ftypM4A ", "audio/mp4"),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm", "video/webm"),
        (b"\x1a\x45\xdf\xa3\x9fB\x82\x88matroska", "video/x-matroska"),
        (b"RIFF\0\0\0\0AVI LIST", "video/x-msvideo"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"ID3\x04\0\0", "audio/mpeg"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"OggS\0\x02", "audio/ogg"),
        (b"fLaC\0\0\0\x22", "audio/flac"),
        (b"%PDF-1.7", "application/pdf"),
        (b"\x7fELF\x02\x01\x01\0", "application/octet-stream"),
        (b"MZ\x90\0\x03\0", "application/octet-stream"),
        (b"plain words", "text/plain"),
        (b"a" + ("ü" * 4096).encode()[:4095], "text/plain"),
        (b'{"a": "1 < 2"}', "text/plain"),
        (b"caf\xe9", "application/octet-stream"),
        (b"<!DOCTYPE html><p>", "text/html"),
        (b"\xef\xbb\xbf\n <HTML>", "text/html"),
        (b"<!-- x --><b>", "text/html"),
        (b"<script>alert(1)</script>", "text/html"),
        (b"harmless words, then <script >", "text/html"),
        ("\ufeff<html>".encode("utf-16-le"), "text/html"),
        (b'<svg xmlns="http://www.w3.org/2000/svg">', "image/svg+xml"),
        (b'<?xml version="1.0"?><!-- x --><!DOCTYPE svg><svg:svg >', "image/svg+xml"),
        (b'<?xml version="1.0"?><feed>', "application/xml"),
    ],
)  # fmt: skip
def test_a_file_is_told_by_its_bytes(head: bytes, media_type: str) -> None:
    assert media_type_of(head) == media_type


async def test_markup_inside_of_an_image_leaves_it_an_image(inspector: Inspector, local_disk: FileStorage) -> None:
    """It is sent as an image and `nosniff`, so no browser reads the rest."""
    written = io.BytesIO()
    Image.new("RGB", (4, 4)).save(written, "JPEG", comment=b"<script>alert(1)</script>")
    found = await inspected(inspector, local_disk, written.getvalue() + b"<?php system('id') ?>")
    assert found.media_type == "image/jpeg"
