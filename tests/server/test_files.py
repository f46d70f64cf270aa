"""Files over HTTP: streamed in, bound by the plan, read by their owner or by a link, and by nobody else."""

import hashlib
import io
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from PIL import Image

from tests.server.test_bad_input import refused
from tests.support.server_process import Served
from tests.support.waiting import until_sync

pytestmark = pytest.mark.long_on("postgresql")

MISSING = "00000000-0000-7000-8000-ffffffffffff"


def picture(size: int = 8) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (size, size), "red").save(made, "PNG")
    return made.getvalue()


PNG = picture()


def sent(client: httpx.Client, content: bytes = PNG, name: str = "cat.png", **query: str) -> httpx.Response:
    return client.post("/api/uploads", files={"file": (name, content)}, params=query)


def test_a_user_uploads_submits_and_downloads(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(key) as user:
        made = sent(user, name=r"..\..\evil/ cat.png")
        assert made.status_code == 201, made.text
        assert (made.json()["url"], made.json()["headers"]) == (None, {})
        file = made.json()["file"]
        assert (file["name"], file["size"], file["state"], file["role"]) == ("cat.png", len(PNG), "stored", "input")
        assert (file["media_type"], file["digest"]) == ("image/png", hashlib.sha256(PNG).hexdigest())
        assert user.get(f"/api/files/{file['id']}/info").json() == file
        assert user.get("/api/files").json() == {"items": [file], "next": None}
        assert user.get("/api/files", params={"role": "result"}).json()["items"] == []
        account = user.get("/api/account").json()
        assert (account["files"], account["storage_bytes"]) == (1, len(PNG))
        submitted = user.post("/api/jobs", json={"tool": "copy", "payload": {"picture": file["id"]}})
        assert submitted.status_code == 201, submitted.text
        job = submitted.json()["job_id"]
        assert [one["id"] for one in user.get(f"/api/jobs/{job}/files").json()["items"]] == [file["id"]]
        token = user.post(f"/api/jobs/{job}/token").json()["token"]
        with server.client(token) as browser:
            assert [one["id"] for one in browser.get(f"/api/jobs/{job}/files").json()["items"]] == [file["id"]]
            refused(browser.get(f"/api/files/{file['id']}"), 403, "FORBIDDEN")
        whole = user.get(f"/api/files/{file['id']}")
        assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, PNG, "image/png")
        assert whole.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in whole.headers["content-security-policy"]
        assert whole.headers["x-content-type-options"] == "nosniff"
        part = user.get(f"/api/files/{file['id']}", headers={"Range": "bytes=2-5"})
        assert (part.status_code, part.content) == (206, PNG[2:6])
        shown = user.get(f"/api/files/{file['id']}", params={"inline": "true"})
        assert shown.headers["content-disposition"].startswith("inline;")
        tool = next(one for one in user.get("/api/tools").json()["items"] if one["name"] == "copy")
        assert tool["schema"]["properties"]["picture"] | {"title": ""} == {
            "type": "string",
            "format": "ficha-file",
            "title": "",
        }
        removed = user.delete(f"/api/files/{file['id']}")
        assert (removed.status_code, removed.json()["state"]) == (200, "removed")
        refused(user.get(f"/api/files/{file['id']}"), 404, "NOT_FOUND")


def test_a_link_opens_one_file_until_it_expires_and_is_no_key(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user, server.client(None) as anybody:
        one, other = (sent(user).json()["file"]["id"] for _ in range(2))
        made = user.get(f"/api/files/{one}/link", params={"ttl_s": 60}).json()
        link = urlsplit(made["url"])
        path = f"{link.path}?{link.query}"
        assert anybody.get(path).content == PNG
        assert anybody.get(f"{path}&inline=true").headers["content-disposition"].startswith("inline;")
        query = {name: value[0] for name, value in parse_qs(link.query).items()}
        for wrong in (
            {**query, "signature": query["signature"][:-1]},
            {**query, "signature": ""},
            {**query, "expires": str(int(query["expires"]) + 1)},
            {**query, "expires": "99999999999999999999"},
            {"signature": query["signature"]},
        ):
            refused(anybody.get(f"/api/files/{one}", params=wrong), 401, "UNAUTHENTICATED")
        refused(anybody.get(f"/api/files/{other}", params=query), 401, "UNAUTHENTICATED")
        refused(anybody.get(f"/api/files/{one}/info", params=query), 422, "INVALID_ARGUMENT")
        refused(anybody.get(f"/api/files/{one}"), 401, "UNAUTHENTICATED")
        refused(anybody.get(f"{path}&signature=x"), 422, "INVALID_ARGUMENT")
        refused(user.get(f"/api/files/{one}/link", params={"ttl_s": 604_801}), 422, "INVALID_ARGUMENT")
        user.delete(f"/api/files/{one}")
        refused(anybody.get(path), 404, "NOT_FOUND")
    assert not [line for line in server.lines if query["signature"] in line]


def test_anothers_file_is_as_if_it_did_not_exist(server: Served, name: str) -> None:
    with server.client(server.account(name)) as ana, server.client(server.account(f"{name}-b")) as bob:
        file = sent(ana).json()["file"]["id"]
        for method, path in (
            ("GET", "/api/files/{}"),
            ("GET", "/api/files/{}/info"),
            ("GET", "/api/files/{}/link"),
            ("DELETE", "/api/files/{}"),
            ("POST", "/api/uploads/{}/complete"),
        ):
            foreign, missing = bob.request(method, path.format(file)), bob.request(method, path.format(MISSING))
            assert (foreign.status_code, missing.status_code) == (404, 404), path
            assert foreign.json()["detail"].replace(file, MISSING) == missing.json()["detail"]
        body = {"tool": "copy", "payload": {"picture": file}}
        assert refused(bob.post("/api/jobs", json=body), 422, "INVALID_PAYLOAD")["file"] == file
        refused(sent(bob, account=name), 403, "FORBIDDEN")
        assert bob.get("/api/files").json()["items"] == []
    with server.client(server.service) as service:
        refused(sent(service), 422, "INVALID_ARGUMENT")
        assert sent(service, account=name).json()["file"]["account"] == name
        assert len(service.get("/api/files", params={"account": name}).json()["items"]) == 2


def test_a_plan_bounds_size_number_and_storage_to_the_byte(server: Served, name: str) -> None:
    with server.client(server.account(name, plan="tidy")) as user:
        assert sent(user, bytes(1_000)).status_code == 201
        refused(sent(user, bytes(1_001)), 413, "TOO_LARGE")
        refused(sent(user, bytes(501)), 413, "TOO_LARGE")
        refused(sent(user, bytes(11), size="10"), 413, "TOO_LARGE")
        refused(sent(user, b"", size="1001"), 413, "TOO_LARGE")
        # What comes in pieces says nothing of its size before.
        form = {"file": ("a", Unsized(bytes(1_001)))}
        refused(user.post("/api/uploads", files=form), 413, "TOO_LARGE")
        assert sent(user, bytes(500)).status_code == 201
        told = refused(sent(user, b""), 429, "QUOTA_EXCEEDED")
        assert (told["limit"], told["files"], told["retryable"]) == (2, 2, False)
        assert user.get("/api/account").json()["storage_bytes"] == 1_500
        # A body that must be too large is refused before it is sent.
        user.delete(f"/api/files/{user.get('/api/files').json()['items'][0]['id']}")
        assert "bytes or more" in refused(sent(user, bytes(200_000)), 413, "TOO_LARGE")["detail"]


class Unsized(io.RawIOBase):
    """A file whose length nobody can see."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        return self._content.read(size)

    def seekable(self) -> bool:
        return False


def test_uploads_side_by_side_keep_within_the_plan(server: Served, name: str) -> None:
    key = server.account(name, plan="tidy")

    def send(_: int) -> int:
        with server.client(key) as user:
            return sent(user, bytes(700), size="700").status_code

    with ThreadPoolExecutor(4) as threads:
        codes = sorted(threads.map(send, range(8)))
    assert codes.count(201) == 2
    assert set(codes) <= {201, 413, 429}
    with server.client(key) as user:
        account = user.get("/api/account").json()
        assert (account["files"], account["storage_bytes"]) == (2, 1_400)


@pytest.mark.parametrize(
    ("content_type", "body", "code"),
    [
        ("multipart/form-data", b"x", "INVALID_ARGUMENT"),
        ("multipart/form-data; boundary=b", b"x", "INVALID_ARGUMENT"),
        ("multipart/form-data; boundary=b", b"--b--\r\n", "INVALID_ARGUMENT"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n',
            "INVALID_ARGUMENT",
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx',
            "INVALID_ARGUMENT",
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n\r\nx\r\n'
            b'--b\r\nContent-Disposition: form-data; name="b"; filename="b"\r\n\r\nx\r\n--b--\r\n',
            "INVALID_ARGUMENT",
        ),
        ("text/plain", b"x", "UNSUPPORTED_MEDIA_TYPE"),
        ("application/json", b'{"name": "a", "size": 1}', "INVALID_ARGUMENT"),
        ("application/json", b'{"name": "a", "size": -1}', "INVALID_ARGUMENT"),
        ("application/json", b'{"name": "a"', "INVALID_JSON"),
    ],
)
def test_what_is_no_upload_is_refused_in_words_and_leaves_nothing(
    server: Served, name: str, content_type: str, body: bytes, code: str
) -> None:
    with server.client(server.account(name)) as user:
        answer = user.post("/api/uploads", content=body, headers={"Content-Type": content_type})
        assert answer.json()["code"] == code, answer.text
        account = user.get("/api/account").json()
        assert (account["files"], account["storage_bytes"]) == (0, 0)


def test_a_file_that_is_not_safe_to_keep_is_refused(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        refused(sent(user, PNG[:-30]), 422, "INVALID_FILE")
        assert user.get("/api/account").json()["files"] == 0


def test_an_upload_under_a_reservation_shows_that_the_job_waits_for_it(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        hold = user.post("/api/reservations", json={"ttl_s": 60}).json()["id"]
        with half_sent(server, user, reservation=hold) as connection:
            until_sync(lambda: user.get("/api/reservations").json()["items"][0]["uploads"])
            [upload] = user.get("/api/reservations").json()["items"][0]["uploads"]
            assert (upload["state"], upload["reservation"]) == ("uploading", hold)
            told = refused(
                user.post("/api/jobs", json={"tool": "copy", "payload": {"picture": upload["id"]}}),
                409,
                "INVALID_STATE",
            )
            assert told["state"] == "uploading"
            refused(user.delete(f"/api/files/{upload['id']}"), 409, "INVALID_STATE")
            refused(user.get(f"/api/files/{upload['id']}"), 409, "INVALID_STATE")
            connection.close()
        # The sender has gone: its room is free again, and nothing is left.
        until_sync(lambda: user.get("/api/account").json()["files"] == 0)
        assert user.get("/api/reservations").json()["items"][0]["uploads"] == []
        refused(sent(user, reservation=MISSING), 404, "NOT_FOUND")
        file = sent(user, reservation=hold).json()["file"]["id"]
        body = {"tool": "copy", "payload": {"picture": file}, "reservation": hold}
        assert user.post("/api/jobs", json=body).status_code == 201


class half_sent:
    """An upload of which the first bytes are sent, on a connection of its own."""

    def __init__(self, server: Served, user: httpx.Client, **query: str) -> None:
        where = urlsplit(server.url)
        self._connection = socket.create_connection((where.hostname, where.port), timeout=30)
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="cat.png"\r\n\r\n' + PNG
        head = (
            f"POST /api/uploads?{asked} HTTP/1.1\r\nHost: {where.netloc}\r\n"
            f"Authorization: {user.headers['authorization']}\r\nContent-Length: 5000\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        )
        self._connection.sendall(head.encode() + part)

    def __enter__(self) -> socket.socket:
        return self._connection

    def __exit__(self, *_: Any) -> None:
        self._connection.close()


def test_slow_uploads_keep_neither_their_account_nor_others_waiting(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        slow = [half_sent(server, user) for _ in range(4)]
        until_sync(lambda: user.get("/api/account").json()["files"] == 4)
        # As many as are allowed: the next one is told to wait, and other requests are answered.
        refused(sent(user), 429, "RATE_LIMITED")
        assert user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}}).status_code == 201
        for one in slow:
            one.__exit__()
        until_sync(lambda: user.get("/api/account").json()["files"] == 0)
        # The row goes before the request that made it has ended and is no longer counted.
        until_sync(lambda: sent(user).status_code == 201)


def test_a_large_file_streams_through_both_ways_without_being_held(server: Served, name: str) -> None:
    def zeros() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="large"\r\n\r\n'
        for _ in range(48):
            yield bytes(1_048_576)
        yield b"\r\n--b--\r\n"

    with server.client(server.account(name)) as user:
        before = memory(server)
        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        made = user.post("/api/uploads", content=zeros(), headers=kind)
        assert made.status_code == 201, made.text
        file = made.json()["file"]
        assert file["size"] == 48 * 1_048_576
        # More than an account may have under way at once, were it held.
        sizes = []
        with (
            user.stream("GET", f"/api/files/{file['id']}") as one,
            server.client(user.headers["authorization"].removeprefix("Bearer ")) as again,
            again.stream("GET", f"/api/files/{file['id']}") as other,
        ):
            sizes = [sum(map(len, answer.iter_bytes())) for answer in (one, other)]
        assert sizes == [48 * 1_048_576] * 2
        assert memory(server) - before < 40 * 1_048_576


def memory(server: Served) -> int:
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1_024
