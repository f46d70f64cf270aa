"""Signatures over short texts, such as the address that a provider calls back or a link to a file.

They are HMACs whose key is derived from the deployment's secret for one purpose, so that a signature for one purpose is
invalid for any other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

LEAST_BYTES: Final = 32
"""The shortest secret that is accepted."""
SIGNATURE_BYTES: Final = 24


class Signer:
    """Signs with the deployment's secret, which all its processes share."""

    def __init__(self, secret: str) -> None:
        if len(secret.encode()) < LEAST_BYTES:
            raise ValueError(
                f"the secret must have at least {LEAST_BYTES} characters; make one with: "
                "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        self._secret = secret.encode()

    def sign(self, purpose: str, *parts: str) -> str:
        """The signature of these parts, as text that fits into a URL."""
        key = hmac.digest(self._secret, f"ficha: {purpose}, 1".encode(), hashlib.sha256)
        # The length before each part keeps ("ab", "c") and ("a", "bc") apart.
        text = "".join(f"{len(part)}:{part}" for part in parts)
        found = hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)[:SIGNATURE_BYTES]
        return base64.urlsafe_b64encode(found).decode().rstrip("=")

    def is_signed(self, signature: str, purpose: str, *parts: str) -> bool:
        """Whether this is the signature of these parts, in a time that does not depend on where it differs."""
        return hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), self.sign(purpose, *parts).encode())
