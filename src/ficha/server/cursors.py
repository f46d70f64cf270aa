"""Cursors: where the next page of a list begins. They are signed, so a forged one, or one of another list, is
refused."""

from __future__ import annotations

import base64
import hashlib
import hmac

from .. import validation as arg
from ..errors import Refused


class Cursors:
    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), b"ficha cursor", hashlib.sha256)

    def seal(self, name: str, value: str | None) -> str | None:
        """A signed cursor for the list of that name; None at its end."""
        if value is None:
            return None
        return base64.urlsafe_b64encode(self._signature(name, value) + value.encode()).decode().rstrip("=")

    def open(self, name: str, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        try:
            sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            signature, value = sealed[:12], sealed[12:].decode()
        except ValueError:
            raise _refused() from None
        if not hmac.compare_digest(signature, self._signature(name, value)) or self.seal(name, value) != cursor:
            raise _refused()
        return value

    def _signature(self, name: str, value: str) -> bytes:
        return hmac.digest(self._key, f"{name}\n{value}".encode(), hashlib.sha256)[:12]


def _refused() -> Refused:
    return arg.invalid("the cursor is not from this list; start again without it")
