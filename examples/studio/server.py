"""The studio's server: the page, its demonstration routes, and, for everything else, Ficha's own API, console and docs.

    python server.py --port 8000

| route | what |
|---|---|
| `GET /studio` | the page |
| `GET /studio/demo` | the demo accounts, what credits cost, the sample pictures |
| `POST /studio/enter` | a token for a demo account |
| `POST /studio/payments`, `…/{id}/pay` | buys credits |
| `POST /studio/simulator` | how the simulated provider is to treat the caller's next task |
| `POST /studio/webhooks` | messages of Ficha's about jobs that have ended |
"""

import argparse
import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec
import samples
import uvicorn
from app import app
from door import NotLetIn, account_of, check_place, token_for
from payments import DECLINED_CARD, GOOD_CARD, PACKS, Payments, pay
from people import EVERYBODY, PEOPLE
from providers import SIMULATOR, is_simulated
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from webhook_receiver import PATH as RECEIVER_PATH
from webhook_receiver import WebhookReceiver

PAGES = Path(__file__).parent / "pages"
BODY_BYTES = 4_096
MESSAGE_BYTES = 1_000_000
STOP_S = 5
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png"}
NOT_BUILT = "The page is not built. `make web` in the repository builds it; the API at /api works without.\n"
FAIL_WORDS = "CUDA out of memory: tried to allocate 2.50 GiB"
SLOW_S = 40.0
NEXT: dict[str, dict[str, Any] | None] = {
    "fail": {"fail": FAIL_WORDS},
    "lose": {"lose": True},
    "slow": {"seconds": SLOW_S},
}
"""What the simulated provider can be told about an account's next task."""


class Enter(msgspec.Struct, forbid_unknown_fields=True):
    account: str


class Buy(msgspec.Struct, forbid_unknown_fields=True):
    credits: int


class Card(msgspec.Struct, forbid_unknown_fields=True):
    card: str


class NextTask(msgspec.Struct, forbid_unknown_fields=True):
    next: Literal["fail", "lose", "slow"]


Answer = Callable[[Request], Awaitable[Response]]
payments = Payments()
receiver = WebhookReceiver()


def demo(answer: Answer) -> Answer:
    """A route that only this machine may call; what it refuses is a problem, as from Ficha's own routes."""

    async def answered(request: Request) -> Response:
        try:
            check_place(request)
            return await answer(request)
        except NotLetIn as error:
            return problem(error.status, error.code, error.detail)
        except msgspec.MsgspecError as error:
            return problem(422, "INVALID_ARGUMENT", f"{error}; nothing was changed.")

    return answered


def problem(status: int, code: str, detail: str) -> Response:
    body = {"type": "about:blank", "title": code.replace("_", " ").capitalize(), "status": status}
    return JSONResponse(
        {**body, "detail": detail, "code": code, "retryable": False},
        status,
        {"Cache-Control": "no-store"},
        "application/problem+json",
    )


def answer(value: object, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(msgspec.json.encode(value), status, headers, "application/json")


async def body(request: Request, type: type[Any]) -> Any:
    return msgspec.json.decode(await raw_body(request, BODY_BYTES), type=type)


async def raw_body(request: Request, most: int) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise NotLetIn(413, "TOO_LARGE", f"a body has at most {most} bytes")
    return bytes(data)


async def page(request: Request) -> Response:
    index = PAGES / "index.html"
    if not index.exists():
        return Response(NOT_BUILT, 503, PAGE_HEADERS, "text/plain")
    return Response(index.read_bytes(), headers={**PAGE_HEADERS, "Cache-Control": "no-cache"}, media_type="text/html")


async def asset(request: Request) -> Response:
    """A built file. Its name has a digest of what is in it, so it never changes."""
    found = PAGES / "assets" / request.path_params["name"]
    if found.suffix not in MEDIA_TYPES or not found.is_file():
        raise HTTPException(404)
    headers = {**PAGE_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found.read_bytes(), headers=headers, media_type=MEDIA_TYPES[found.suffix])


async def about(request: Request) -> Response:
    return answer(
        {
            "people": [person._asdict() for person in PEOPLE],
            "packs": [{"credits": credits, "cents": cents} for credits, cents in PACKS.items()],
            "cards": {"good": GOOD_CARD, "declined": DECLINED_CARD},
            "samples": samples.SAMPLES,
            "is_simulated": is_simulated(),
        }
    )


async def enter(request: Request) -> Response:
    asked: Enter = await body(request, Enter)
    if asked.account not in EVERYBODY:
        return problem(404, "NOT_FOUND", f"there is no demo account {asked.account[:80]!r}")
    token, expires_at = token_for(asked.account)
    return answer(
        {
            "token": token,
            "account": asked.account,
            "plan": EVERYBODY[asked.account].plan,
            "expires_at": datetime.fromtimestamp(expires_at, UTC),
        }
    )


async def buy(request: Request) -> Response:
    account = account_of(request)
    asked: Buy = await body(request, Buy)
    if asked.credits not in PACKS:
        return problem(422, "INVALID_ARGUMENT", f"credits: one of {', '.join(map(str, PACKS))}; nothing was changed.")
    return answer(payments.open(account, asked.credits), 201)


async def charge(request: Request) -> Response:
    found = payments.find(account_of(request), request.path_params["id"])
    asked: Card = await body(request, Card)
    if found is None:
        return problem(404, "NOT_FOUND", "there is no such payment; it was not paid")
    return answer(await pay(app, found, asked.card))


async def simulator(request: Request) -> Response:
    account = account_of(request)
    asked: NextTask = await body(request, NextTask)
    if not is_simulated():
        return problem(409, "INVALID_STATE", "real providers are in use; they cannot be told what to do")
    told = {"task": {**(NEXT[asked.next] or {}), "model": f"--for-{account}"}}
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        (await client.post(f"{SIMULATOR}/control", json=told)).raise_for_status()
    return answer({"next": asked.next})


async def receive(request: Request) -> Response:
    return Response(status_code=receiver.receive(dict(request.headers), await raw_body(request, MESSAGE_BYTES)))


async def sample(request: Request) -> Response:
    found = await asyncio.to_thread(samples.picture, request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    data, media_type = found
    return Response(data, headers={**PAGE_HEADERS, "Cache-Control": "max-age=3600"}, media_type=media_type)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    async with app:
        await receiver.add(app)
        for person in EVERYBODY.values():
            await app.open_account(person.account, plan=person.plan, credits=person.credits, exist_ok=True)
        yield


web = Starlette(
    routes=[
        Route("/studio", page),
        Route("/studio/", lambda _: RedirectResponse("/studio")),
        Route("/studio/assets/{name}", asset),
        Route("/studio/samples/{name}", sample),
        Route("/studio/demo", demo(about)),
        Route("/studio/enter", demo(enter), methods=["POST"]),
        Route("/studio/payments", demo(buy), methods=["POST"]),
        Route("/studio/payments/{id}/pay", demo(charge), methods=["POST"]),
        Route("/studio/simulator", demo(simulator), methods=["POST"]),
        Route(RECEIVER_PATH, demo(receive), methods=["POST"]),
        Mount("/", app.asgi()),
    ],
    lifespan=lifespan,
)


class Server(uvicorn.Server):
    """Says where it listens once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(f"listening at http://127.0.0.1:{self.config.port}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    logging.basicConfig(level=os.environ.get("STUDIO_LOG", "WARNING"), format="%(levelname)s %(name)s: %(message)s")
    config = uvicorn.Config(
        web,
        host="127.0.0.1",
        port=parser.parse_args().port,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_S,
    )
    # uvicorn repeats the signal that ended it, once it has ended well: that is no reason to end with an error.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    Server(config).run()


if __name__ == "__main__":
    main()
