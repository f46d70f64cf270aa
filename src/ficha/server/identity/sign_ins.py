"""Sign-ins of browsers: a cookie with a signed reference to the credential that somebody signed in with.

The cookie holds no credential. It names an API key, whose state is checked with every request, or the account of a
JWT, and the time when the sign-in ends. A JWT cannot be revoked, so its sign-in ends with it at the latest.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from ...signing import Signer
from .callers import Caller, unauthenticated

COOKIE: Final = "ficha_sign_in"
_PURPOSE: Final = "sign-in"


class SignIn(Struct, frozen=True, array_like=True):
    """Who signed in: by the API key of this id, or with a JWT for this account; and until when, in seconds since
    1970."""

    key_id: str | None
    account: str | None
    ends_at: int


class SignIns:
    """Makes and reads the cookies' texts. `ttl_s`: how long a sign-in lasts at most."""

    def __init__(self, secret: str, ttl_s: float, clock: Callable[[], float] = time.time) -> None:
        self._signer = Signer(secret)
        self._ttl_s = ttl_s
        self._clock = clock

    def issue(self, caller: Caller) -> tuple[str, SignIn]:
        """A sign-in of this caller, and its cookie's text. It ends no later than the caller's credential."""
        ends_at = self._clock() + self._ttl_s
        if caller.expires_at is not None:
            ends_at = min(ends_at, caller.expires_at)
        sign_in = SignIn(caller.key_id, caller.account if caller.key_id is None else None, int(ends_at))
        body = base64.urlsafe_b64encode(msgspec.json.encode(sign_in)).decode().rstrip("=")
        return f"{body}.{self._signer.sign(_PURPOSE, body)}", sign_in

    def read(self, text: str) -> SignIn:
        """The sign-in of a cookie. Refused unless this server signed it."""
        body, _, signature = text.partition(".")
        if not self._signer.is_signed(signature, _PURPOSE, body):
            raise unauthenticated("the cookie of the sign-in is not one of this server; sign in again")
        return msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=SignIn)

    def check(self, sign_in: SignIn) -> None:
        """Refuses a sign-in that has ended."""
        if sign_in.ends_at <= self._clock():
            raise unauthenticated("the sign-in has ended; sign in again")
