"""Who calls: users by a JWT like Supabase's, the payment service and the provider by a signature like Stripe's."""

import hashlib
import hmac
import os
import time

import jwt

AUDIENCE = "authenticated"
ISSUER = os.environ.get("SHOP_ISSUER", "https://shop.example/auth/v1")
JWT_SECRET = os.environ["SHOP_JWT_SECRET"]
WEBHOOK_SECRET = os.environ["SHOP_WEBHOOK_SECRET"].encode()
TOLERANCE_S = 300


class Unsigned(Exception):
    """The call does not prove who it comes from."""


def user_of(authorization: str) -> str:
    """The user whom a token names."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unsigned("a bearer token is needed")
    try:
        claims = jwt.decode(
            token,
            JWT_SECRET,
            algorithms=["HS256"],
            audience=AUDIENCE,
            issuer=ISSUER,
            options={"require": ["exp", "aud", "iss", "sub"]},
        )
    except jwt.InvalidTokenError as error:
        raise Unsigned(f"the token is not valid: {error}") from None
    return str(claims["sub"])


def signed(body: bytes, at: int) -> str:
    """What the payment service and the provider send along with a call."""
    code = hmac.new(WEBHOOK_SECRET, b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={code}"


def check(body: bytes, signature: str) -> None:
    """Raises unless the body was signed, and a short while ago."""
    parts = dict(part.partition("=")[::2] for part in signature.split(","))
    at = int(parts["t"]) if parts.get("t", "").isdecimal() else 0
    if abs(time.time() - at) > TOLERANCE_S or not hmac.compare_digest(signed(body, at), signature):
        raise Unsigned("the signature is not valid")
