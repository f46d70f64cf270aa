"""Whether a call-back was signed by the provider: Standard Webhooks, fal's ed25519, and plain HMAC.

A check returns False if a well-formed signature does not fit. Anything else that is wrong with headers or body raises
`BadCallback`, and no other exception. Times are compared with the call-back's arrival, so that it can be checked again
later.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct

from ..extras import needs_extra
from .base import BadCallback, ProviderError, ProviderHttp, ReceivedCallback
from .json_paths import all_found, text_at

TOLERANCE_S: Final = 300
"""How far a call-back's time stamp may be from its arrival, either way."""
KEPT_S: Final = 86_400.0
"""How long fetched keys are cached."""
PAUSE_S: Final = 60.0
"""How long after a fetch of keys a signature that fits none of them causes no other fetch."""
NO_FIT: Final = "its signature does not fit"
MOST_SIGNATURES: Final = 20
MOST_KEYS: Final = 20
_SECONDS: Final = re.compile(r"[0-9]{1,11}", re.ASCII)
_ED25519_HEX: Final = re.compile(r"[0-9a-fA-F]{128}", re.ASCII)

Keys = TypeVar("Keys")


def fits_standard_webhook(callback: ReceivedCallback, secrets: Iterable[str]) -> bool:
    """Standard Webhooks: whether one of the listed signatures was made with one of the secrets."""
    with needs_extra("providers"):
        from standardwebhooks.webhooks import Webhook

    message_id = header(callback, "webhook-id")
    at = checked_time(callback, "webhook-timestamp")
    given = header(callback, "webhook-signature").split(" ")[:MOST_SIGNATURES]
    signed_at = datetime.fromtimestamp(at, UTC)
    try:
        body = callback.body.decode()
        # The library's own check compares with the clock of now, so only its signature is used.
        expected = [Webhook(secret).sign(message_id, signed_at, body).encode() for secret in secrets]
    except UnicodeError as error:
        raise BadCallback("the call-back is not UTF-8") from error
    return _is_any(expected, (one.encode("utf-8", "replace") for one in given))


def fits_fal(callback: ReceivedCallback, keys: Sequence[bytes]) -> bool:
    """fal: ed25519 over the request's id, the user's id, the time and the body's digest, with one of the keys."""
    with needs_extra("providers"):
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    request_id = header(callback, "x-fal-webhook-request-id")
    user_id = header(callback, "x-fal-webhook-user-id")
    at = header(callback, "x-fal-webhook-timestamp")
    checked_time(callback, "x-fal-webhook-timestamp")
    signature = header(callback, "x-fal-webhook-signature")
    if _ED25519_HEX.fullmatch(signature) is None:
        raise BadCallback("its signature is malformed")
    message = "\n".join([request_id, user_id, at, hashlib.sha256(callback.body).hexdigest()]).encode("utf-8", "replace")
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(bytes.fromhex(signature), message)
        except (InvalidSignature, ValueError):
            continue
        return True
    return False


class HmacSignature(Struct, frozen=True, kw_only=True):
    """How a provider signs the body of its call-backs with a shared secret (HMAC-SHA256).

    header: the header with the signature.
    secret: the key; its text is used as it is.
    prefix: the text before the signature, such as "sha256=". Defaults to nothing.
    encoding: how the signature is written. Defaults to hexadecimal.
    time_header: the header with the UNIX time of signing. If it is given, `time.body` is signed instead of the body,
        and the time must be near the arrival. Defaults to none: an old call-back can then be replayed.
    """

    header: str
    secret: str
    prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    time_header: str | None = None


class StandardSignature(Struct, frozen=True):
    """The provider signs by Standard Webhooks. secrets: `whsec_…`; several while one is replaced by another."""

    secrets: tuple[str, ...]


def fits_hmac(callback: ReceivedCallback, terms: HmacSignature) -> bool:
    given = header(callback, terms.header)
    signed = callback.body
    if terms.time_header is not None:
        signed = f"{checked_time(callback, terms.time_header)}.".encode() + signed
    digest = hmac.digest(terms.secret.encode(), signed, "sha256")
    made = digest.hex() if terms.encoding == "hex" else base64.b64encode(digest).decode()
    return _is_any([(terms.prefix + made).encode()], [given.encode("utf-8", "replace")])


def check_secret(secret: str) -> None:
    """Raises ValueError if a text cannot be a secret of Standard Webhooks."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_") + "==")
    except ValueError:
        key = b""
    if len(key) < 16:
        raise ValueError("a secret of Standard Webhooks is whsec_ and at least 16 bytes in base64")


def header(callback: ReceivedCallback, name: str) -> str:
    found = callback.headers.get(name.lower())
    if not found:
        raise BadCallback(f"it has no header {name}")
    return found


def checked_time(callback: ReceivedCallback, name: str) -> int:
    """The time in a header; raises BadCallback unless it is near the call-back's arrival."""
    text = header(callback, name)
    if _SECONDS.fullmatch(text) is None:
        raise BadCallback(f"its header {name} is no UNIX time")
    at = int(text)
    if abs(callback.received_at - at) > TOLERANCE_S:
        raise BadCallback(f"it was signed more than {TOLERANCE_S} seconds away from now")
    return at


def _is_any(expected: Sequence[bytes], given: Iterable[bytes]) -> bool:
    """Whether any given signature is an expected one. Compares in a time that does not reveal how much was right."""
    fits = False
    for one in given:
        for other in expected:
            fits |= hmac.compare_digest(one, other)
    return fits


class PublishedKeys(Generic[Keys]):
    """Keys that a provider publishes, cached for a day. If none of them fits, they are fetched again, but not within
    `PAUSE_S` of the last fetch, so that forged call-backs cannot cause a request each."""

    def __init__(
        self,
        fetch: Callable[[ProviderHttp], Awaitable[Keys]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Keys | None = None
        self._tried_at = float("-inf")
        self._fetched_at = float("-inf")
        self._fetching: asyncio.Task[Keys] | None = None

    async def check(self, http: ProviderHttp, fits: Callable[[Keys], bool]) -> None:
        """Raises BadCallback unless the cached keys or newly fetched ones fit; ProviderError if they cannot be
        fetched."""
        if fits(await self.current(http)):
            return
        newer = await self.newer(http)
        if newer is None or not fits(newer):
            raise BadCallback(NO_FIT)

    async def current(self, http: ProviderHttp) -> Keys:
        if self._keys is not None and self._clock() - self._fetched_at < KEPT_S:
            return self._keys
        return await self._fetched(http)

    async def newer(self, http: ProviderHttp) -> Keys | None:
        """Newly fetched keys; None if they were fetched a moment ago."""
        if self._clock() - self._tried_at < PAUSE_S:
            return None
        return await self._fetched(http)

    async def _fetched(self, http: ProviderHttp) -> Keys:
        """Fetches the keys. Call-backs that arrive together share one request."""
        loop = asyncio.get_running_loop()
        running = self._fetching
        if running is None or running.done() or running.get_loop() is not loop:
            self._tried_at = self._clock()
            running = self._fetching = loop.create_task(self._fetch_now(http))
            running.add_done_callback(_seen)
        return await asyncio.shield(running)

    async def _fetch_now(self, http: ProviderHttp) -> Keys:
        keys = await self._fetch(http)
        self._keys, self._fetched_at = keys, self._clock()
        return keys


def _seen(task: asyncio.Task[Any]) -> None:
    """Marks the task's error as retrieved, so that asyncio does not report it if nobody waits for the task any more."""
    if not task.cancelled():
        task.exception()


def ed25519_keys(jwks: Any) -> tuple[bytes, ...]:
    """The ed25519 keys of a JSON Web Key Set. Keys of other kinds, and broken ones, are skipped."""
    keys = []
    for one in all_found(jwks, "keys")[: 5 * MOST_KEYS]:
        if text_at(one, "crv") != "Ed25519" or (text := text_at(one, "x")) is None:
            continue
        try:
            key = base64.urlsafe_b64decode(text.encode("ascii") + b"==")
        except ValueError:
            continue
        if len(key) == 32:
            keys.append(key)
    if not keys:
        raise ProviderError("the provider's list of keys has no ed25519 key")
    return tuple(keys[:MOST_KEYS])
