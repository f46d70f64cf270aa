"""Uploads as they stream in: parts in order, names as text, and a limit on everything that a sender chooses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.files.multipart import BadMultipart, MultipartLimits, UploadPart, UploadTooSlow, upload_parts

TYPE = "multipart/form-data; boundary=frontier"


def part(content: bytes, disposition: str = 'form-data; name="file"; filename="a.png"', *headers: str) -> bytes:
    lines = [f"Content-Disposition: {disposition}", *headers]
    return b"--frontier\r\n" + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + content + b"\r\n"


def body(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--frontier--\r\n"


async def sent(text: bytes, step: int = 65_536) -> AsyncIterator[bytes]:
    for at in range(0, len(text), step):
        yield text[at : at + step]


async def received(
    text: bytes | AsyncIterator[bytes],
    step: int = 65_536,
    limits: MultipartLimits | None = None,
    content_type: str | None = TYPE,
) -> list[tuple[str, str | None, bytes]]:
    found = []
    async for one in upload_parts(content_type, sent(text, step) if isinstance(text, bytes) else text, limits):
        found.append((one.name, one.file_name, b"".join([chunk async for chunk in one.chunks()])))
    return found


async def refused(text: bytes, limits: MultipartLimits | None = None, content_type: str | None = TYPE) -> str:
    with pytest.raises(BadMultipart) as caught:
        await received(text, limits=limits, content_type=content_type)
    return str(caught.value)


@pytest.mark.parametrize("step", [1, 7, 100, 65_536])
async def test_parts_come_in_order_however_the_bytes_are_cut(step: int) -> None:
    text = body(part(b"a\r\nb--frontier", 'form-data; name="note"'), part(b"\0" * 300 + b"\r\n--fron"), part(b""))
    assert await received(text, step) == [
        ("note", None, b"a\r\nb--frontier"),
        ("file", "a.png", b"\0" * 300 + b"\r\n--fron"),
        ("file", "a.png", b""),
    ]


@given(st.lists(st.binary(max_size=300), max_size=4), st.integers(1, 50))
def test_any_content_comes_out_as_it_went_in(contents: list[bytes], step: int) -> None:
    contents = [content for content in contents if b"--frontier" not in content]
    found = asyncio.run(received(body(*map(part, contents)), step)) if contents else []
    assert [content for _, _, content in found] == contents


BITS = [
    b"--frontier",
    b"--",
    b"\r\n",
    b"\r",
    b"\n",
    b":",
    b"Content-Disposition: form-data; name=x",
    b"\0",
    b"a",
    b"\xff",
]


@given(st.lists(st.sampled_from(BITS), max_size=30), st.integers(1, 50))
def test_no_body_is_answered_with_anything_but_parts_or_a_refusal(bits: list[bytes], step: int) -> None:
    with contextlib.suppress(BadMultipart):
        asyncio.run(received(b"".join(bits), step))


async def test_a_part_that_is_not_read_is_passed_over() -> None:
    text = body(part(b"x" * 200_000), part(b"second", 'form-data; name="second"'))
    seen = [
        (one.name, await one.text() if one.name == "second" else "") async for one in upload_parts(TYPE, sent(text))
    ]
    assert seen == [("file", ""), ("second", "second")]


async def test_the_content_of_a_file_is_never_held_beyond_a_chunk() -> None:
    """As much was taken from the body as was given out, and one chunk more."""
    taken = 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal taken
        async for chunk in sent(body(part(b"x" * 10_000_000))):
            taken += len(chunk)
            yield chunk

    async for one in upload_parts(TYPE, counted()):
        given_out = 0
        async for chunk in one.chunks():
            given_out += len(chunk)
            assert taken - given_out <= 65_536 + 1_000


@pytest.mark.parametrize(
    ("sent_name", "name"),
    [
        ("a.png", "a.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\\\Users\\\\me\\\\a b.png", "a b.png"),
        ("..", "file"),
        ("", "file"),
        ("/", "file"),
        ("Übergröße.png", "Übergröße.png"),
        ("a%22b.png", 'a"b.png'),
        ("a%0D%0Ab.png", "a b.png"),
        ("photo_\u202egpj.exe", "photo_gpj.exe"),
        ("nul\x00l.png", "null.png"),
        ("x" * 500 + ".jpeg", "x" * 195 + ".jpeg"),
    ],
)
async def test_a_file_name_is_text_and_never_a_path(sent_name: str, name: str) -> None:
    [(_, found, _)] = await received(body(part(b"x", f'form-data; name="file"; filename="{sent_name}"')))
    assert found == name


async def test_the_declared_type_is_kept_apart() -> None:
    text = body(part(b"x", 'form-data; name="file"; filename="a"', "Content-Type: text/html"))
    [kind] = [one.declared_type async for one in upload_parts(TYPE, sent(text))]
    assert kind == "text/html"


@pytest.mark.parametrize(
    ("content_type", "words"),
    [
        (None, "send the file as multipart/form-data"),
        ("application/json", "send the file as multipart/form-data"),
        ("multipart/form-data", "boundary"),
        (f"multipart/form-data; boundary={'x' * 71}", "boundary"),
    ],
)
async def test_a_body_that_is_no_upload_is_refused(content_type: str | None, words: str) -> None:
    assert words in await refused(body(part(b"x")), content_type=content_type)


@pytest.mark.parametrize("cut", [1, 20, 60, 100, 400, 1_000])
async def test_an_upload_that_ends_in_the_middle_is_refused(cut: int) -> None:
    assert "ended before its last boundary" in await refused(body(part(b"x" * 1_000))[:cut])


@pytest.mark.parametrize("text", [b"nonsense", b"--other\r\n\r\n", b"--frontier\r\nno colon\r\n\r\n", b"--frontierX"])
async def test_what_cannot_be_read_is_refused(text: bytes) -> None:
    assert "no multipart/form-data that can be read" in await refused(text + b"x" * 100)


@pytest.mark.parametrize("disposition", ["form-data", 'attachment; name="file"', 'form-data; filename="a.png"'])
async def test_a_part_without_a_name_is_refused(disposition: str) -> None:
    assert "Content-Disposition" in await refused(body(part(b"x", disposition)))


async def test_as_many_parts_as_allowed_and_one_more() -> None:
    limits = MultipartLimits(parts=3)
    assert len(await received(body(*[part(b"x")] * 3), limits=limits)) == 3
    assert "more than 3 parts" in await refused(body(*[part(b"x")] * 4), limits)


async def test_as_many_headers_as_allowed_and_one_more() -> None:
    limits = MultipartLimits(headers=3)
    disposition = 'form-data; name="file"'
    assert len(await received(body(part(b"x", disposition, "A: 1", "B: 2")), limits=limits)) == 1
    assert "header" in (await refused(body(part(b"x", disposition, "A: 1", "B: 2", "C: 3")), limits)).lower()


async def test_a_header_as_long_as_allowed_and_one_byte_longer() -> None:
    limits = MultipartLimits(header_bytes=100)
    disposition = 'form-data; name="file"'
    assert len(await received(body(part(b"x", disposition, "A: " + "x" * 97)), limits=limits)) == 1
    assert "header" in (await refused(body(part(b"x", disposition, "A: " + "x" * 98)), limits)).lower()


async def test_line_ends_without_end_are_refused() -> None:
    assert "outside of its parts" in await refused(b"\r\n" * 50_000 + body(part(b"x")))


async def test_what_comes_after_the_last_boundary_is_not_read() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield body(part(b"x"))
        raise AssertionError("read on")

    found = [b"".join([chunk async for chunk in one.chunks()]) async for one in upload_parts(TYPE, endless())]
    assert found == [b"x"]


@pytest.mark.parametrize("size", [10, 11])
async def test_a_field_as_long_as_allowed_and_one_byte_longer(size: int) -> None:
    async def text_of(one: UploadPart) -> str:
        return await one.text(10)

    text = body(part(b"x" * size, 'form-data; name="note"'))
    async for one in upload_parts(TYPE, sent(text)):
        if size == 10:
            assert await text_of(one) == "x" * 10
        else:
            with pytest.raises(BadMultipart, match="longer than 10 bytes"):
                await text_of(one)


async def test_a_field_that_is_no_text_is_refused() -> None:
    async for one in upload_parts(TYPE, sent(body(part(b"\xff", 'form-data; name="note"')))):
        with pytest.raises(BadMultipart, match="UTF-8"):
            await one.text()


async def test_a_sender_that_stalls_is_told() -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield body(part(b"x"))[:80]
        await asyncio.Event().wait()

    with pytest.raises(UploadTooSlow, match="nothing of the upload came"):
        await received(stalled(), limits=MultipartLimits(idle_s=0.01))


async def test_a_sender_that_drips_is_told() -> None:
    """Each byte comes in time; all of them together do not."""
    text = body(part(b"x"))

    async def drips() -> AsyncIterator[bytes]:
        for at in range(len(text)):
            yield text[at : at + 1]
            await asyncio.sleep(0.01)

    with pytest.raises(UploadTooSlow, match="longer than"):
        await received(drips(), limits=MultipartLimits(total_s=0.05))


async def test_a_sender_that_goes_away_is_an_error_of_its_own() -> None:
    async def gone() -> AsyncIterator[bytes]:
        yield body(part(b"x"))[:80]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await received(gone())
