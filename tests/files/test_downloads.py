"""A download: whole, by range, or not again; with headers under which nothing in it can run."""

from collections.abc import AsyncGenerator, AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ficha.files.downloads import Download
from ficha.files.names import content_disposition
from ficha.files.storage import FileMissing, FileStorage, StorageAway

CONTENT = bytes(range(256)) * 10
KEY = "account/file-1"
DIGEST = "d" * 64


async def chunks(content: bytes) -> AsyncIterator[bytes]:
    yield content


def served(storage: FileStorage, content: bytes = CONTENT, media_type: str = "image/png", **options) -> Starlette:
    async def file(request: Request) -> Download:
        return Download(
            storage, KEY, size=len(content), digest=DIGEST, media_type=media_type, **({"name": "a.png"} | options)
        )

    async def problem(request: Request, error: Exception) -> Response:
        return Response(str(error), 404 if isinstance(error, FileMissing) else 503)

    return Starlette(routes=[Route("/file", file)], exception_handlers={FileMissing: problem, StorageAway: problem})


async def get(app: Starlette, method: str = "GET", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        return await http.request(
            method, "/file", headers={name.replace("_", "-"): value for name, value in headers.items()}
        )


@pytest.fixture
async def stored(storage: FileStorage) -> FileStorage:
    await storage.put(KEY, chunks(CONTENT), 10_000)
    return storage


async def test_a_file_is_sent_whole(stored: FileStorage) -> None:
    answer = await get(served(stored))
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["etag"] == f'"{DIGEST}"'
    assert answer.headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize(
    ("header", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=100-", 100, len(CONTENT)),
        ("bytes=-1", len(CONTENT) - 1, len(CONTENT)),
        ("bytes=-99999", 0, len(CONTENT)),
        (f"bytes={len(CONTENT) - 1}-99999", len(CONTENT) - 1, len(CONTENT)),
    ],
)
async def test_a_range_is_sent_alone(stored: FileStorage, header: str, start: int, end: int) -> None:
    answer = await get(served(stored), range=header)
    assert (answer.status_code, answer.content) == (206, CONTENT[start:end])
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(CONTENT)}"
    assert answer.headers["content-length"] == str(end - start)


@pytest.mark.parametrize("header", [f"bytes={len(CONTENT)}-", "bytes=99999-100000", "bytes=-0"])
async def test_a_range_outside_of_the_file_is_told_its_size(local_disk: FileStorage, header: str) -> None:
    answer = await get(served(local_disk), range=header)
    assert (answer.status_code, answer.content) == (416, b"")
    assert answer.headers["content-range"] == f"bytes */{len(CONTENT)}"


@pytest.mark.parametrize(
    "header",
    ["bytes=5-2", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6", "bytes=" + "9" * 40 + "-", "bytes=٣-٤"],
)
async def test_what_is_no_single_range_gives_the_whole_file(local_disk: FileStorage, header: str) -> None:
    await local_disk.put(KEY, chunks(CONTENT), 10_000)
    transport = httpx.ASGITransport(served(local_disk))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        answer = await http.get("/file", headers=[(b"range", header.encode())])
    assert (answer.status_code, answer.content) == (200, CONTENT)


async def test_a_range_of_another_version_gives_the_whole_file(local_disk: FileStorage) -> None:
    await local_disk.put(KEY, chunks(CONTENT), 10_000)
    app = served(local_disk)
    assert (await get(app, range="bytes=0-9", if_range=f'"{DIGEST}"')).status_code == 206
    for other in ('"other"', f'W/"{DIGEST}"', "Mon, 16 Nov 2026 12:00:00 GMT"):
        assert (await get(app, range="bytes=0-9", if_range=other)).content == CONTENT


@pytest.mark.parametrize("header", [f'"{DIGEST}"', f'"other", W/"{DIGEST}"', "*"])
async def test_what_the_reader_has_is_not_sent_again(local_disk: FileStorage, header: str) -> None:
    answer = await get(served(local_disk), if_none_match=header)
    assert (answer.status_code, answer.content) == (304, b"")
    assert "content-length" not in answer.headers


async def test_head_gives_the_headers_alone(local_disk: FileStorage) -> None:
    answer = await get(served(local_disk), "HEAD")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(CONTENT))
    answer = await get(served(local_disk), "HEAD", range="bytes=0-9")
    assert (answer.status_code, answer.headers["content-length"]) == (206, "10")


async def test_an_empty_file_is_sent(local_disk: FileStorage) -> None:
    await local_disk.put(KEY, chunks(b""), 10)
    answer = await get(served(local_disk, b""))
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "0")


@pytest.mark.parametrize(
    ("media_type", "told", "is_shown"),
    [
        ("image/png", "image/png", True),
        ("video/mp4", "video/mp4", True),
        ("text/plain", "text/plain; charset=utf-8", False),
        ("application/zip", "application/zip", False),
        ("text/html", "application/octet-stream", False),
        ("image/svg+xml", "application/octet-stream", False),
        ("application/xhtml+xml", "application/octet-stream", False),
        ("application/pdf", "application/octet-stream", False),
        ("text/javascript", "application/octet-stream", False),
        ("x/y\r\nSet-Cookie: a=b", "application/octet-stream", False),
    ],
)
@pytest.mark.parametrize("inline", [True, False])
async def test_nothing_that_can_run_is_shown_in_place(
    local_disk: FileStorage, media_type: str, told: str, is_shown: bool, inline: bool
) -> None:
    answer = await get(served(local_disk, media_type=media_type, inline=inline), "HEAD")
    assert answer.headers["content-type"] == told
    kind = answer.headers["content-disposition"].partition(";")[0]
    assert kind == ("inline" if inline and is_shown else "attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a.png", "attachment; filename=\"a.png\"; filename*=UTF-8''a.png"),
        ('a"; b=c\r\n.png', "attachment; filename=\"a__ b=c .png\"; filename*=UTF-8''a%22%3B%20b%3Dc%20.png"),
        ("é/../ü.png", "attachment; filename=\"_.png\"; filename*=UTF-8''%C3%BC.png"),
        ("", "attachment; filename=\"file\"; filename*=UTF-8''file"),
    ],
)
def test_a_name_cannot_break_out_of_its_header(name: str, header: str) -> None:
    assert content_disposition(name, inline=False) == header


async def test_a_file_that_is_missing_is_told_before_anything_is_sent(storage: FileStorage) -> None:
    assert (await get(served(storage))).status_code == 404


async def test_a_storage_that_is_away_is_told_before_anything_is_sent(local_disk: FileStorage, tmp_path) -> None:
    (tmp_path / "files").rename(tmp_path / "elsewhere")
    assert (await get(served(local_disk))).status_code == 503


async def test_a_file_that_is_shorter_than_recorded_breaks_off(local_disk: FileStorage) -> None:
    await local_disk.put(KEY, chunks(CONTENT[:-1]), 10_000)
    with pytest.raises(RuntimeError, match="1 bytes less"):
        await get(served(local_disk))


async def test_a_reader_that_goes_away_ends_the_reading(local_disk: FileStorage) -> None:
    await local_disk.put(KEY, chunks(b"x" * 3_000_000), 3_000_000)
    closed = []

    class Watched(FileStorage):
        put = delete = size = None  # type: ignore[assignment]

        async def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
            try:
                async for chunk in local_disk.get(key, start, end):
                    yield chunk
            finally:
                closed.append(key)

    async def send(message: dict) -> None:
        if message["type"] == "http.response.body":
            raise OSError("the peer went away")

    download = Download(Watched(), KEY, size=3_000_000, digest=DIGEST, media_type="image/png", name="a.png")
    scope = {"type": "http", "method": "GET", "headers": []}
    with pytest.raises(OSError, match="went away"):
        await download(scope, None, send)
    assert closed == [KEY]
