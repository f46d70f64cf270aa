"""The public keys of JWTs, fetched from their issuer's address and kept while it is away.

They are fetched when the first token comes, again in the background once they are 300 s old, and for a key that is not
among them, at most every 10 s. An answer replaces all keys, so that one that the issuer took back is refused from then
on. While there is no answer the last ones go on working, for at most 24 h.
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

log = logging.getLogger("ficha.server")

ALGORITHMS: Final = frozenset({"RS256", "ES256", "EdDSA"})
REFRESH_S: Final = 300.0
"""After this time keys are fetched again."""
PAUSE_S: Final = 10.0
"""They are fetched at most this often, whatever is asked for."""
KEEP_S: Final = 86_400.0
"""How long they go on working while their address does not answer."""
TIMEOUT_S: Final = 5.0
ANSWER_BYTES: Final = 262_144
_ALGORITHM_OF: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}

Keys = dict[tuple[str | None, str], jwt.PyJWK]
"""By id and algorithm."""


class Jwks:
    """Finds keys, and fetches them one fetch at a time."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._clock = clock
        self._timeout_s = timeout_s
        # Whatever came compressed could be any number of times larger than what was counted.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout_s, follow_redirects=False)
        self._keys: Keys = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._is_away = False
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key of that id, or None if there is none. The id serves to look it up, and for nothing else."""
        found, age_s = self._kept(kid, algorithm), self._age_s()
        if found is None or age_s >= REFRESH_S:
            fetching = self._fetch_soon()
            # Keys that nobody has used for long are not trusted before a fetch was tried; once it has failed, nobody
            # waits for the next one.
            is_old = age_s >= 2 * REFRESH_S and not self._is_away
            if fetching is not None and (found is None or is_old):
                # Whoever stops waiting does not take the answer from the others.
                await asyncio.wait({fetching})
                found = self._kept(kid, algorithm)
        if self._age_s() >= KEEP_S:
            raise Refused.of(
                Refusal(
                    "OVERLOADED",
                    "the keys that JWTs are checked with cannot be fetched now; try again, or use an API key.",
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

    def _kept(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if self._age_s() >= KEEP_S:
            return None
        if kid is not None and (kid, algorithm) in self._keys:
            return self._keys[kid, algorithm]
        if len(self._keys) != 1:
            return None
        # Where there is one key only, the token or the key may leave its id out.
        [((only_kid, only_algorithm), only)] = self._keys.items()
        return only if only_algorithm == algorithm and (kid is None or only_kid is None) else None

    def _fetch_soon(self) -> asyncio.Task[None] | None:
        """The fetch that is under way, or a new one; None if the last one was begun a moment ago."""
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
                logging.DEBUG if self._is_away else logging.WARNING,
                "the keys for JWTs were not fetched from %s (%r); those fetched before go on working for %.0f h",
                self._url,
                error,
                KEEP_S / 3_600,
            )
            self._is_away = True
        else:
            if not keys:
                log.warning("%s holds no key that JWTs could be checked with, so all are refused", self._url)
            self._keys, self._fetched_at, self._is_away = keys, self._tried_at, False

    async def _download(self) -> bytes:
        body = b""
        async with self._client.stream("GET", self._url) as answer:
            if answer.status_code != 200:
                raise ValueError(f"the answer was {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise ValueError("the answer is compressed, which was not asked for")
            async for part in answer.aiter_raw():
                body += part
                if len(body) > ANSWER_BYTES:
                    raise ValueError(f"the answer is longer than {ANSWER_BYTES} bytes")
        return body


def usable_keys(body: bytes) -> Keys:
    """The keys of a JWK set that can check signatures here. Others may be beside them and are passed over."""
    answer = msgspec.json.decode(body)
    if not isinstance(answer, dict) or not isinstance(answer.get("keys"), list):
        raise ValueError("the answer is not a JWK set: an object with the list `keys`")
    usable = [key for entry in answer["keys"] if (key := _usable(entry)) is not None]
    found: Keys = {}
    for key in usable:
        # Among several, one without an id could only be tried out.
        if key.key_id is not None or len(usable) == 1:
            found.setdefault((key.key_id, key.algorithm_name), key)
    return found


def _usable(entry: Any) -> jwt.PyJWK | None:
    try:
        algorithm = _ALGORITHM_OF[entry["kty"], entry.get("crv")]
        if "d" in entry:
            log.warning("a private key was published among the keys for JWTs and is not used; replace it")
            return None
        if entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
            return None
        if "verify" not in entry.get("key_ops", ["verify"]) or not isinstance(entry.get("kid", ""), str):
            return None
        key = jwt.PyJWK(entry, algorithm)
        return None if key.Algorithm.check_key_length(key.key) else key
    except Exception:  # What others publish can be wrong in any way; then it is no key.
        return None
