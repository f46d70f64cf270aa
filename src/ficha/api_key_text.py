"""The text of an API key: `ficha_<scope>_`, 27 random characters, 6 characters of checksum.

The prefix lets scanners for leaked secrets find keys, underscores let a double click select a whole key, and the
checksum tells a typing error from an unknown key without a query.
"""

from __future__ import annotations

import hashlib
import secrets
import string
from typing import Any, Final, get_args
from zlib import crc32

from .core.records import ApiKeyScope

_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM: Final = 27
"""How many characters hold 160 random bits."""
_CHECKSUM: Final = 6
_HINT: Final = 6
"""How many random characters are stored and shown to tell keys apart: 36 of the bits, which leaves 124 secret."""


def new_secret(scope: ApiKeyScope) -> str:
    text = f"ficha_{scope}_{_base62(secrets.randbits(160), _RANDOM)}"
    return text + _checksum(text)


def hint_of(secret: str) -> str:
    return secret[: -(_RANDOM + _CHECKSUM - _HINT)]


def digest_of(secret: str) -> str:
    """What is stored. 160 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def scope_of(text: Any) -> ApiKeyScope | None:
    """The scope in a well-formed key; None for anything else."""
    if not isinstance(text, str) or not text.isascii():
        return None
    for scope in get_args(ApiKeyScope):
        start = f"ficha_{scope}_"
        if text.startswith(start) and len(text) == len(start) + _RANDOM + _CHECKSUM:
            body, checksum = text[:-_CHECKSUM], text[-_CHECKSUM:]
            return scope if body[len(start) :].isalnum() and checksum == _checksum(body) else None
    return None


def is_well_formed(text: Any) -> bool:
    return scope_of(text) is not None


def _checksum(text: str) -> str:
    return _base62(crc32(text.encode()), _CHECKSUM)


def _base62(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return digits
