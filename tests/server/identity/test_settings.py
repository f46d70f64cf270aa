"""Settings that would let strangers in are refused when the server starts."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct

from ficha import Ficha, Plan
from ficha.server.identity import Identity
from ficha.server.identity.settings import setting_problem
from tests.server.identity.signing import AUDIENCE, ISSUER, JWT_SECRET, SERVER_SECRET, Signer

JWT = {"jwt_audience": AUDIENCE, "jwt_issuer": ISSUER}


class Told(Struct, frozen=True, kw_only=True):
    """Settings as they are told, unchecked by anybody else."""

    secret: str = SERVER_SECRET
    jwt_secret: str | None = None
    jwt_jwks_url: str | None = None
    jwt_audience: str | None = None
    jwt_issuer: str | None = None
    attempts_per_hour: int = 100


def public(encoding: Encoding, form: PublicFormat) -> str:
    return Signer("ES256", "a").private.public_key().public_bytes(encoding, form).decode()


GOOD: list[dict[str, Any]] = [
    {},
    {"jwt_secret": JWT_SECRET} | JWT,
    {"jwt_jwks_url": "https://id.example/jwks.json"} | JWT,
    {"jwt_jwks_url": "http://127.0.0.1:8080/jwks.json"} | JWT,
    {"jwt_jwks_url": "http://localhost/jwks.json"} | JWT,
    {"jwt_jwks_url": "http://[::1]:8080/jwks.json"} | JWT,
]


@pytest.mark.parametrize("given", GOOD)
def test_these_are_taken(given: dict[str, Any]) -> None:
    assert setting_problem(Told(**given)) is None


BAD: list[tuple[dict[str, Any], str]] = [
    ({"secret": "x" * 31}, "FICHA_SECRET"),
    ({"secret": ""}, "FICHA_SECRET"),
    ({"attempts_per_hour": 0}, "FICHA_ATTEMPTS_PER_HOUR"),
    ({"jwt_secret": "x" * 31} | JWT, "FICHA_JWT_SECRET"),
    ({"jwt_secret": "", **JWT}, "FICHA_JWT_SECRET"),
    ({"jwt_secret": public(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)} | JWT, "no secret"),
    ({"jwt_secret": public(Encoding.OpenSSH, PublicFormat.OpenSSH)} | JWT, "no secret"),
    ({"jwt_secret": JWT_SECRET, "jwt_jwks_url": "https://id.example/jwks.json"} | JWT, "not both"),
    ({"jwt_secret": JWT_SECRET}, "FICHA_JWT_AUDIENCE"),
    ({"jwt_secret": JWT_SECRET, "jwt_audience": AUDIENCE}, "FICHA_JWT_ISSUER"),
    ({"jwt_secret": JWT_SECRET, "jwt_audience": "", "jwt_issuer": ISSUER}, "FICHA_JWT_AUDIENCE"),
    ({"jwt_secret": JWT_SECRET, "jwt_audience": "ficha:job", "jwt_issuer": ISSUER}, "ficha:job"),
    ({"jwt_jwks_url": "http://id.example/jwks.json"} | JWT, "https://"),
    ({"jwt_jwks_url": "http://127.0.0.1.evil.example/"} | JWT, "https://"),
    ({"jwt_jwks_url": "file:///etc/jwks.json"} | JWT, "https://"),
    ({"jwt_jwks_url": "https://"} | JWT, "https://"),
    ({"jwt_jwks_url": "https://[::1"} | JWT, "https://"),
    ({"jwt_jwks_url": "", **JWT}, "https://"),
    ({"jwt_jwks_url": "https://me:pass@id.example/jwks.json"} | JWT, "password"),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_these_are_refused_with_what_to_set_and_without_the_secret(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        Identity(Ficha("memory:", plans=[Plan("free")]), Told(**given))
    assert not any(len(value) > 8 and value in str(caught.value) for name, value in given.items() if "secret" in name)
