"""Web pages: the console's built files, the API's documentation, and where `/` leads."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Route

from ficha import Ficha, Plan
from ficha.core.codes import CODES
from ficha.environment import SettingError
from ficha.server import Settings
from ficha.server.api_docs import docs_page
from ficha.server.page_files import PAGE_HEADERS
from ficha.server.routes import web_pages
from tests.server.raw_http import behind
from tests.server.test_bad_input import refused
from tests.server.test_openapi import SERVER
from tests.support.server_process import SECRET, Served, served

SCRIPT = b"console.log('built')\n" * 100
BUILT = {
    "index.html": b"<!doctype html><title>Console</title>",
    "mark.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "assets/index-Dq3x.js": SCRIPT,
    "assets/index-Bz9a.css": b"body{}",
    "assets/sans-C1.woff2": b"\0woff",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the console was built to, with a secret beside it."""
    folder = tmp_path / "console"
    for name, body in BUILT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    (tmp_path / "secret.txt").write_text("canary")
    monkeypatch.setattr(web_pages, "CONSOLE", folder)
    return folder


def pages(root_path: str = "", **settings: object) -> httpx.AsyncClient:
    """A client of an application with these settings, mounted at a path if one is given."""
    asgi = Ficha("memory:", plans=[Plan("free")]).asgi(Settings(secret=SECRET, **settings))  # type: ignore[arg-type]
    host = FastAPI()
    host.mount(root_path, asgi)
    transport = httpx.ASGITransport(host if root_path else asgi)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://host")


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with pages() as client:
        yield client


async def test_the_console_and_every_address_below_it_is_its_index(client: httpx.AsyncClient) -> None:
    for path in ("", "/", "/jobs", "/jobs/0198f1a2", "/accounts/ana%2Fbob.png", "/index.html", "/assets"):
        answer = await client.get(f"/console{path}")
        assert (answer.status_code, answer.content) == (200, BUILT["index.html"]), path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"


async def test_hashed_files_are_kept_for_a_year_and_others_are_asked_about(client: httpx.AsyncClient) -> None:
    for name, body in BUILT.items():
        answer = await client.get(f"/console/{name}")
        assert answer.content == body
        kept = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"
        assert answer.headers["cache-control"] == ("no-store" if name == "index.html" else kept)
        again = await client.get(f"/console/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = await client.get(f"/console/{name}", headers={"If-None-Match": 'W/"other"'})
        assert other.status_code == 200
    kinds = {name.rpartition(".")[2]: (await client.get(f"/console/{name}")).headers["content-type"] for name in BUILT}
    assert kinds == {
        "html": "text/html; charset=utf-8",
        "svg": "image/svg+xml",
        "js": "text/javascript; charset=utf-8",
        "css": "text/css; charset=utf-8",
        "woff2": "font/woff2",
    }


async def test_every_page_bounds_what_it_may_load_and_do(client: httpx.AsyncClient) -> None:
    for path in ("/console", "/console/assets/index-Dq3x.js", "/docs", "/docs/style.css"):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert {name: answer.headers[name] for name in PAGE_HEADERS} == PAGE_HEADERS, path
    assert "unsafe" not in PAGE_HEADERS["Content-Security-Policy"]
    # What is no page may load nothing at all.
    assert "default-src 'none'; frame" in (await client.get("/healthz")).headers["content-security-policy"]


async def test_texts_are_sent_compressed_to_whoever_takes_that(client: httpx.AsyncClient) -> None:
    path = "/console/assets/index-Dq3x.js"
    for accepted, is_packed in {"gzip, br": True, "br": False, "gzip;q=0": False, "": False}.items():
        async with client.stream("GET", path, headers={"Accept-Encoding": accepted}) as answer:
            raw = b"".join([part async for part in answer.aiter_raw()])
        assert (answer.headers.get("content-encoding") == "gzip") is is_packed
        assert answer.headers["vary"] == "Accept-Encoding"
        assert (gzip.decompress(raw) if is_packed else raw) == SCRIPT
        assert not is_packed or len(raw) < len(SCRIPT) / 5
    font = await client.get("/console/assets/sans-C1.woff2", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in font.headers


async def test_an_unknown_file_is_not_found(client: httpx.AsyncClient) -> None:
    refused(await client.get("/console/assets/index-old.js"), 404, "NOT_FOUND")
    refused(await client.post("/console"), 405, "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize(
    "path",
    [
        "/console/../secret.txt",
        "/console/..%2Fsecret.txt",
        "/console/%2e%2e/secret.txt",
        "/console/assets/../../secret.txt",
        "/console/assets/..%5c..%5csecret.txt",
        "/console//etc/passwd",
        "/console/assets//etc/passwd",
        "/console/link.txt",
        "/console/linked/secret.txt",
        "/console/secret.txt%00.js",
    ],
)
async def test_nothing_outside_the_folder_is_reached(folder: Path, path: str) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "linked").symlink_to(folder.parent)
    asgi = Ficha("memory:", plans=[Plan("free")]).asgi(Settings(secret=SECRET))
    async with behind(asgi) as server:
        reply = await server.ask(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    assert reply.body == BUILT["index.html"] or reply.status == 404
    assert b"canary" not in reply.body
    assert b"root:" not in reply.body


async def test_pages_that_are_built_anew_are_served_at_once(folder: Path, client: httpx.AsyncClient) -> None:
    assert (await client.get("/console")).content == BUILT["index.html"]
    (folder / "assets/index-Dq3x.js").unlink()
    (folder / "index.html").write_bytes(b"new")
    os.utime(folder / "index.html", ns=(1, 1))
    assert (await client.get("/console")).content == b"new"
    assert (await client.get("/console/assets/index-Dq3x.js")).status_code == 404


async def test_a_console_that_was_not_built_says_how_to_build_it(folder: Path, client: httpx.AsyncClient) -> None:
    (folder / "index.html").unlink()
    answer = await client.get("/console/jobs")
    assert answer.status_code == 503
    assert "<code>make web</code>" in answer.text
    assert {name: answer.headers[name] for name in PAGE_HEADERS} == PAGE_HEADERS
    (folder / "index.html").write_bytes(b"built")
    assert (await client.get("/console/jobs")).text == "built"


async def test_where_the_root_leads(folder: Path) -> None:
    async with pages() as client:
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (307, "/console")
    async with pages(console=False) as client:
        answer = await client.get("/")
        assert answer.status_code == 200
        assert set(re.findall(r'href="(/[^"]*)"', answer.text)) == {
            *("/docs", "/docs/style.css", "/api/openapi.json", "/readyz"),
        }
        for path in ("/console", "/console/", "/console/assets/index-Dq3x.js"):
            refused(await client.get(path), 404, "NOT_FOUND")


async def test_below_a_path_the_links_lead_there_and_there_is_no_console(folder: Path) -> None:
    async with pages("/a&b") as client:
        for path in ("/", "/docs"):
            answer = await client.get(f"/a&b{path}")
            assert answer.status_code == 200
            assert all(link.startswith("/a&amp;b/") for link in re.findall(r'href="(/[^"]*)"', answer.text))
        answer = await client.get("/a&b/console")
        assert (answer.status_code, "ficha serve" in answer.text) == (404, True)
        assert (await client.get("/a&b/docs/style.css")).status_code == 200


@pytest.mark.parametrize(("text", "has_console"), [("off", False), ("0", False), ("On", True), ("true", True)])
def test_the_console_is_switched_by_a_setting(text: str, has_console: bool) -> None:
    assert Settings.from_environment({"FICHA_SECRET": SECRET, "FICHA_CONSOLE": text}).console is has_console


def test_a_switch_is_on_or_off() -> None:
    with pytest.raises(SettingError, match="FICHA_CONSOLE must be on or off, not 'maybe'"):
        Settings.from_environment({"FICHA_SECRET": SECRET, "FICHA_CONSOLE": "maybe"})


def test_only_pages_are_no_routes_of_the_api() -> None:
    """Every other route has a guard, which a test of the OpenAPI document sees to."""
    plain = {route.path for route in SERVER.routes if isinstance(route, Route) and not isinstance(route, APIRoute)}
    assert plain == {"/", "/console", "/console/{path:path}", "/docs", "/docs/style.css"}
    assert all(isinstance(route, Route) for route in SERVER.routes)


class Seen(HTMLParser):
    """What a page's HTML has: its elements, ids and links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [str(value) for name, value in attrs if name == "id"]
        self.links |= {str(value) for name, value in attrs if name in ("href", "src")}
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def docs() -> Seen:
    return Seen(docs_page(SERVER.openapi()).decode())


def test_the_documentation_names_every_route_parameter_field_and_code(docs: Seen) -> None:
    document = SERVER.openapi()
    text = re.sub(r"\s+", " ", docs.text)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()}{path}" in text
            assert operation["summary"] in text
            assert all(parameter["name"] in text for parameter in operation.get("parameters", ()))
    for name, schema in document["components"]["schemas"].items():
        assert f"shape-{name}" in docs.ids
        assert all(field in text for field in schema.get("properties", {}))
    assert set(CODES) <= set(docs.ids)


def test_the_documentation_is_one_page_without_scripts_and_all_its_links_lead_somewhere(docs: Seen) -> None:
    assert not docs.tags & {"script", "style", "iframe", "img", "form", "object"}
    assert not {name for name in docs.attributes if name == "style" or name.startswith("on")}
    assert docs.open == []
    assert len(docs.ids) == len(set(docs.ids))
    inner = {link.removeprefix("#") for link in docs.links if link.startswith("#")}
    assert inner <= set(docs.ids)
    assert {link for link in docs.links if not link.startswith("#")} == {
        *("data:,", "/docs/style.css", "/api/openapi.json"),
    }


def test_what_the_document_says_is_text_in_the_documentation() -> None:
    evil = "<script>alert(1)</script>\"'&`<b>`"
    document = json.loads(json.dumps(SERVER.openapi()))
    document["info"] |= {"title": evil, "version": evil, "description": evil}
    [path] = [path for path in document["paths"] if path == "/api/jobs"]
    operation = document["paths"][path]["get"]
    operation |= {"summary": evil, "description": evil, "tags": [evil], "x-scopes": [evil]}
    operation["parameters"][0] |= {"name": evil, "description": evil}
    operation["parameters"][0]["schema"] |= {"enum": [evil], "default": evil}
    shape = document["components"]["schemas"]["SubmitRequest"]
    shape["properties"] = {evil: {"type": evil, "format": evil, "description": evil, "pattern": evil}}
    shape |= {"description": evil, "examples": [{evil: evil}]}
    page = docs_page(document, root=evil)
    seen = Seen(page.decode())
    assert not seen.tags & {"script", "style"}
    assert "alert(1)" in seen.text


@pytest.fixture(scope="module")
def without_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with served(f"sqlite:///{folder / 'ficha.db'}", FICHA_CONSOLE="off") as server:
        yield server


def test_a_real_server_serves_its_pages_to_anybody(server_on_sqlite: Served, without_console: Served) -> None:
    with server_on_sqlite.client(None) as client:
        assert client.get("/").headers["location"] == "/console"
        # Built or not: that is up to whoever runs the tests.
        assert client.get("/console/jobs").status_code in (200, 503)
        assert client.get("/docs").text.startswith("<!doctype html>")
        head = client.head("/docs")
        assert (head.status_code, head.content) == (200, b"")
        assert client.get("/docs/style.css").headers["content-type"] == "text/css; charset=utf-8"
    with without_console.client(None) as client:
        assert "A durable job queue" in client.get("/").text
        refused(client.get("/console"), 404, "NOT_FOUND")
