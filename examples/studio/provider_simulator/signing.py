"""How call-backs are signed: as each provider documents it, written without Ficha's own code."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


class Signing:
    """The keys of one simulator. Another instance is a forger."""

    def __init__(self) -> None:
        self._hmac_key = secrets.token_bytes(24)
        self._ed25519 = Ed25519PrivateKey.generate()
        self.secret = "whsec_" + base64.b64encode(self._hmac_key).decode()
        self.plain_secret = secrets.token_hex(24)
        self.user_id = "simulated-user"

    def standard_webhooks(self, id: str, at: int, body: bytes) -> dict[str, str]:
        signed = f"{id}.{at}.".encode() + body
        signature = base64.b64encode(hmac.digest(self._hmac_key, signed, "sha256")).decode()
        return {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": f"v1,{signature}"}

    def fal(self, request_id: str, at: int, body: bytes) -> dict[str, str]:
        message = "\n".join([request_id, self.user_id, str(at), hashlib.sha256(body).hexdigest()])
        return {
            "X-Fal-Webhook-Request-Id": request_id,
            "X-Fal-Webhook-User-Id": self.user_id,
            "X-Fal-Webhook-Timestamp": str(at),
            "X-Fal-Webhook-Signature": self._ed25519.sign(message.encode()).hex(),
        }

    def plain(self, body: bytes) -> dict[str, str]:
        return {"X-Signature": "sha256=" + hmac.new(self.plain_secret.encode(), body, "sha256").hexdigest()}

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        raw = self._ed25519.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        x = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        return {"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "simulated", "x": x}]}
