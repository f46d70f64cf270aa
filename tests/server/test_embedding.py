"""The server inside an application that exists already."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from ficha.server import SettingError, Settings
from tests.support.server_process import SECRET
from tests.support.shop import shop


def client(host: object, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(host),  # type: ignore[arg-type]
        base_url="http://host",
        headers={"Authorization": f"Bearer {key}"},
    )


@pytest.mark.parametrize("framework", [FastAPI, Starlette])
async def test_it_is_mounted_under_a_path_of_the_host(framework: type, tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path / 'ficha.db'}")
    host = framework()
    host.routes.append(Mount("/ficha", app.asgi()))
    async with app:
        await app.open_account("ana", plan="open", credits=10)
        key = (await app.create_api_key("ana", account="ana")).secret
        async with client(host, key) as user:
            submitted = await user.post("/ficha/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}})
            assert submitted.status_code == 201
            assert submitted.headers["location"].startswith("/ficha/api/jobs/")
            assert (await user.get(submitted.headers["location"])).json()["account"] == "ana"
            batch = await user.post("/ficha/api/batches", content=b" " * 2_000_000)
            assert batch.status_code == 415
        assert app.is_open


def as_litestar_hands_it_on(app: ASGIApp, mount: str) -> ASGIApp:
    """A mount of Litestar 2: it cuts itself off the path alone, and adds a slash at the end if there is none."""

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        rest = scope["path"].removeprefix(mount)
        await app({**scope, "path": rest if rest.endswith("/") else f"{rest}/", "root_path": ""}, receive, send)

    return mounted


@pytest.mark.parametrize("mount", ["/ficha", "/a/b", "/"])
async def test_it_is_mounted_by_a_host_that_says_nowhere_what_it_cuts_off(mount: str, tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path / 'ficha.db'}")
    host = as_litestar_hands_it_on(app.asgi(Settings(secret=SECRET)), mount)
    root = mount.rstrip("/")
    async with app:
        for account in ("ana", "a/b", "a/"):
            await app.open_account(account, plan="open", credits=10)
        key = (await app.create_api_key("root", scope="admin")).secret
        async with client(host, key) as admin:
            assert (await admin.get(f"{root}/readyz")).json() == {"status": "ok"}
            asked = {"tool": "upscale", "payload": {"image": "x"}, "account": "ana"}
            submitted = await admin.post(f"{root}/api/jobs", json=asked)
            assert submitted.status_code == 201, submitted.text
            assert submitted.headers["location"].startswith(f"{root}/api/jobs/")
            assert (await admin.get(submitted.headers["location"])).json()["account"] == "ana"
            for account in ("ana", "a%2Fb", "a%2F"):
                answer = await admin.get(f"{root}/api/admin/accounts/{account}")
                assert quote(answer.json()["id"], safe="") == account
            # A slash that the caller wrote is no slash of the host's.
            assert (await admin.get(f"{root}/readyz/")).status_code == 404
            if root:
                assert "A durable job queue" in (await admin.get(root)).text


async def test_the_first_request_opens_an_application_that_is_not_open(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path / 'ficha.db'}")
    async with app:
        key = (await app.create_api_key("root", scope="admin")).secret
    host = Starlette(routes=[Mount("/", app.asgi())])
    async with client(host, key) as admin:
        assert (await admin.get("/healthz")).status_code == 200
        assert not app.is_open
        assert (await admin.get("/api/admin/accounts")).json() == {"items": [], "next": None}
        assert app.is_open
    await app.close()


def test_settings_that_make_no_sense_are_told() -> None:
    for environment, words in {
        (): "FICHA_SECRET is not set",
        (("FICHA_SECRET", "short"),): "FICHA_SECRET",
        (("FICHA_SECRET", "changeme" * 8),): "easily guessed",
        (("FICHA_SECRET", "ab" * 20),): "easily guessed",
        (("FICHA_SECRET", SECRET), ("FICHA_JWT_SECRET", SECRET)): "FICHA_JWT_AUDIENCE",
        (("FICHA_SECRET", SECRET), ("FICHA_BODY_BYTES", "many")): "FICHA_BODY_BYTES must be a number",
        (("FICHA_SECRET", SECRET), ("FICHA_BODY_S", "-1")): "above 0",
        (("FICHA_SECRET_FILE", "/nowhere/at/all"),): "FICHA_SECRET_FILE",
    }.items():
        with pytest.raises(SettingError, match=words):
            Settings.from_environment(dict(environment))


def test_a_secret_can_come_from_a_file_and_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")

    settings = Settings.from_environment(
        {
            "FICHA_SECRET_FILE": str(tmp_path / "secret"),
            "FICHA_CORS_ORIGINS": "https://a.example, https://b.example",
            "FICHA_STREAMS": "7",
        }
    )

    assert settings.secret == SECRET
    assert settings.cors_origins == ("https://a.example", "https://b.example")
    assert settings.streams == 7
    assert SECRET not in repr(settings)


async def test_pages_of_named_origins_may_call_and_others_may_not(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path / 'ficha.db'}")
    server = app.asgi(Settings(secret=SECRET, cors_origins=("https://shop.example",)))
    async with app:
        key = (await app.create_api_key("root", scope="admin")).secret
        async with client(server, key) as browser:
            for origin, allowed in {
                "https://shop.example": "https://shop.example",
                "https://evil.example": None,
            }.items():
                answer = await browser.get("/api/account?account=x", headers={"Origin": origin})
                assert answer.headers.get("access-control-allow-origin") == allowed
                asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
                asked["Access-Control-Request-Headers"] = "authorization, idempotency-key"
                preflight = await browser.options("/api/jobs", headers=asked)
                assert preflight.headers.get("access-control-allow-origin") == allowed
                assert (preflight.status_code == 200) is (allowed is not None)
                assert "access-control-allow-credentials" not in preflight.headers
