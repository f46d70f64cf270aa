"""The public keys of JWTs, fetched from their issuer's URL and cached.

They are fetched for the first token, again in the background once they are 300 s old, and for a key that is not among
them, at most every 10 s. An answer replaces all keys, so a key that the issuer withdrew is refused from then on. While
fetches fail, the cached keys stay valid for at most 24 h.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import jwt
import msgspec

from ...core.outcomes import Refusal
from ...errors import Refused
from ...store.database_url import hidden

log = logging.getLogger("ficha.server")

ALGORITHMS: Final = frozenset({"RS256", "ES256", "EdDSA"})
REFRESH_S: Final = 300.0
"""After this time, keys are fetched again."""
PAUSE_S: Final = 10.0
"""The shortest time between two fetches, for whatever reason."""
KEEP_S: Final = 86_400.0
"""How long cached keys stay valid while fetches fail."""
TIMEOUT_S: Final = 5.0
ANSWER_BYTES: Final = 262_144
_ALGORITHM_OF: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}

Keys = dict[tuple[str | None, str], jwt.PyJWK]
"""By id and algorithm."""


class Jwks:
    """Finds keys in the cache and fetches them, one fetch at a time."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._clock = clock
        self._timeout_s = timeout_s
        # Uncompressed, so that the size that is counted is the size in memory.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout_s, follow_redirects=False)
        self._keys: Keys = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._is_failing = False
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key of that id, or None if there is none. The id is used for this lookup only."""
        found, age_s = self._cached(kid, algorithm), self._age_s()
        if found is None or age_s >= REFRESH_S:
            fetching = self._fetch_if_due()
            # Keys this old have not been used for a while: the request waits for a fetch before it trusts them, unless
            # the last fetch has failed.
            is_old = age_s >= 2 * REFRESH_S and not self._is_failing
            if fetching is not None and (found is None or is_old):
                # A caller that is cancelled must not cancel the fetch that others wait for.
                await asyncio.wait({fetching})
                found = self._cached(kid, algorithm)
        if self._age_s() >= KEEP_S:
            raise Refused.of(
                Refusal(
                    "OVERLOADED",
                    "the keys to verify JWTs cannot be fetched now; try again, or use an API key.",
                    retry_after_s=PAUSE_S,
                )
            )
        return found

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        await self._client.aclose()

    def _age_s(self) -> float:
        return self._clock() - self._fetched_at

    def _cached(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if self._age_s() >= KEEP_S:
            return None
        if kid is not None and (kid, algorithm) in self._keys:
            return self._keys[kid, algorithm]
        if len(self._keys) != 1:
            return None
        # Where there is only one key, the token or the key may have no id.
        [((only_kid, only_algorithm), only)] = self._keys.items()
        return only if only_algorithm == algorithm and (kid is None or only_kid is None) else None

    def _fetch_if_due(self) -> asyncio.Task[None] | None:
        """The fetch under way, or a new one; None if the last one began less than `PAUSE_S` ago."""
        if self._fetching is None or self._fetching.done():
            if self._clock() - self._tried_at < PAUSE_S:
                return None
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch(), name="ficha jwks")
        return self._fetching

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                keys = usable_keys(await self._download())
        except Exception as error:
            log.log(
                logging.DEBUG if self._is_failing else logging.WARNING,
                "the keys of JWTs could not be fetched from %s (%r); those fetched before stay valid for %.0f h",
                hidden(self._url),
                error,
                KEEP_S / 3_600,
            )
            self._is_failing = True
        else:
            if not keys:
                log.warning("%s has no key that can verify JWTs, so all JWTs are refused", hidden(self._url))
            self._keys, self._fetched_at, self._is_failing = keys, self._tried_at, False

    async def _download(self) -> bytes:
        body = b""
        async with self._client.stream("GET", self._url) as answer:
            if answer.status_code != 200:
                raise ValueError(f"the response has status {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise ValueError("the response is compressed, though `identity` was requested")
            async for part in answer.aiter_raw():
                body += part
                if len(body) > ANSWER_BYTES:
                    raise ValueError(f"the response is longer than {ANSWER_BYTES} bytes")
        return body


def usable_keys(body: bytes) -> Keys:
    """The keys of a JWK set that can verify signatures here. Others are skipped."""
    answer = msgspec.json.decode(body)
    if not isinstance(answer, dict) or not isinstance(answer.get("keys"), list):
        raise ValueError("the response is not a JWK set: an object with the list `keys`")
    usable = [key for entry in answer["keys"] if (key := _usable(entry)) is not None]
    found: Keys = {}
    for key in usable:
        # A key without an id is usable only if it is the only one: there is no way to choose it.
        if key.key_id is not None or len(usable) == 1:
            found.setdefault((key.key_id, key.algorithm_name), key)
    return found


def _usable(entry: Any) -> jwt.PyJWK | None:
    try:
        algorithm = _ALGORITHM_OF[entry["kty"], entry.get("crv")]
        if "d" in entry:
            log.warning("a private key was published among the keys of JWTs and is not used; replace it")
            return None
        if entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
            return None
        if "verify" not in entry.get("key_ops", ["verify"]) or not isinstance(entry.get("kid", ""), str):
            return None
        key = jwt.PyJWK(entry, algorithm)
        return None if key.Algorithm.check_key_length(key.key) else key
    except Exception:  # An entry from outside can be malformed in any way; then it is no key.
        return None
