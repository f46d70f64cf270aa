"""The door of the demonstration: whoever names a demo account gets a token for it, without a password.

A product has a sign-in of its own in its place. The token is what such a sign-in would issue: a JWT whose subject is
the account, valid for minutes. The door is open on this machine only: to callers on the loopback interface, at a
loopback name (so that no foreign domain can be pointed here), and not to the pages of other sites.
"""

import ipaddress
import os
import time

import jwt
from starlette.requests import Request

ISSUER, AUDIENCE = "studio", "studio"
TOKEN_S = 900


class NotLetIn(Exception):
    """The caller is refused. status: of the answer."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


def token_for(account: str) -> tuple[str, float]:
    """A token, and the time when it expires."""
    expires_at = int(time.time()) + TOKEN_S
    claims = {"sub": account, "iss": ISSUER, "aud": AUDIENCE, "exp": expires_at}
    return jwt.encode(claims, os.environ["FICHA_JWT_SECRET"], algorithm="HS256"), expires_at


def account_of(request: Request) -> str:
    """Whose token the request carries."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise NotLetIn(401, "UNAUTHENTICATED", "no token was sent; POST /studio/enter gives one")
    try:
        claims = jwt.decode(
            token, os.environ["FICHA_JWT_SECRET"], algorithms=["HS256"], issuer=ISSUER, audience=AUDIENCE
        )
    except jwt.InvalidTokenError as error:
        raise NotLetIn(401, "UNAUTHENTICATED", f"the token is not valid: {error}") from error
    account: str = claims["sub"]
    return account


def check_place(request: Request) -> None:
    """Refuses callers from elsewhere."""
    peer = request.client.host if request.client is not None else ""
    if not (_is_loopback(peer) and _is_loopback(request.url.hostname or "")):
        raise NotLetIn(403, "FORBIDDEN", "the demonstration is open on this machine only")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotLetIn(403, "FORBIDDEN", "the pages of other sites may not call this")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
