"""Sign-in for web pages of this server: they send a credential once, and then a cookie that no script can read.

A cookie that is sent in place of `Authorization` counts on every route; `guard` says what else it needs.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from .. import wire as s
from ..guard import AccountReader, OwnPage, peer_of
from ..identity.callers import Caller
from ..identity.sign_ins import COOKIE
from ..openapi import gives
from ..request_body import body
from ..responses import answer
from ..settings import Settings

routes = APIRouter(prefix="/api", tags=["sign-in"])

AUTHENTICATES: Final = ("UNAUTHENTICATED", "FORBIDDEN", "RATE_LIMITED", "OVERLOADED")


@routes.post("/sign-in", summary="Sign in")
@gives(s.SignedIn, *AUTHENTICATES)
async def sign_in(call: OwnPage, asked: Annotated[s.SignInBody, body(s.SignInBody)]) -> Response:
    """Sets a cookie that counts like the API key or JWT that is sent here, until it ends or is revoked."""
    request = call.request
    await request.app.state.opening()
    caller, cookie = await call.identity.sign_in(asked.token, peer=peer_of(request))
    assert caller.expires_at is not None
    request.state.caller_name = caller.name
    told = answer(_told(caller, call.settings))
    _set_cookie(request, told, cookie, max(0, int(caller.expires_at - time.time())))
    return told


@routes.get("/sign-in", summary="Who is signed in?")
@gives(s.SignedIn)
async def signed_in(call: AccountReader) -> Response:
    """Who the caller is, by the cookie or by the header `Authorization`."""
    return answer(_told(call.caller, call.settings))


def _told(caller: Caller, settings: Settings) -> s.SignedIn:
    assert caller.scope != "job", "a job token is no sign-in"
    ends_at = None if caller.expires_at is None else datetime.fromtimestamp(caller.expires_at, UTC)
    return s.SignedIn(
        name=caller.name,
        scope=caller.scope,
        account=caller.account,
        expires_at=ends_at,
        environment=settings.environment,
    )


@routes.post("/sign-out", summary="Sign out")
@gives(s.SignedOut, "FORBIDDEN")
async def sign_out(call: OwnPage) -> Response:
    """Removes the cookie from the browser, also one that has ended."""
    told = answer(s.SignedOut(True))
    _set_cookie(call.request, told, "", 0)
    return told


def _set_cookie(request: Request, response: Response, text: str, max_age_s: int) -> None:
    """Sets the cookie for this application's path alone, and for https alone if the request came by https."""
    response.set_cookie(
        COOKIE,
        text,
        max_age=max_age_s,
        path=request.scope.get("root_path") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
