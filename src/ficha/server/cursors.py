"""Cursors: where the next page of a list begins. They are signed: one that was made up, or is of another list, is
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
        """A cursor for the list of that name; None at its end."""
        if value is None:
            return None
        return base64.urlsafe_b64encode(self._mark(name, value) + value.encode()).decode().rstrip("=")

    def open(self, name: str, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        try:
            sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            mark, value = sealed[:12], sealed[12:].decode()
        except ValueError:
            raise _refused() from None
        if not hmac.compare_digest(mark, self._mark(name, value)) or self.seal(name, value) != cursor:
            raise _refused()
        return value

    def _mark(self, name: str, value: str) -> bytes:
        return hmac.digest(self._key, f"{name}\n{value}".encode(), hashlib.sha256)[:12]


def _refused() -> Refused:
    return arg.invalid("the cursor is not one that this list gave out; begin again without it")
