"""The attacks: what the hostile account sends, over and over, each as large as the server's limits let it be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from ..serving.wire import request
from .application import RICH, TIGHT

MANY: Final = 10_000
"""Jobs in the largest batch."""
BODY: Final = 1_000_000
"""Just below the largest body."""


@dataclass(frozen=True)
class Attack:
    """
    what: what is sent.
    plan: that of the account that attacks; each attack has an account of its own.
    requests: makes the requests of one connection, from the account's key and the connection's number.
    connections: how many send at once.
    holds: the connection stays open with a stream, instead of being asked again.
    is_target: whether the targets are for it; else it is measured to say what bound remains.
    """

    what: str
    plan: str
    requests: Callable[[str, int], Iterator[bytes]]
    connections: int = 16
    holds: bool = False
    is_target: bool = True


def _again(path: str, body: Any = None, **headers: str) -> Callable[[str, int], Iterator[bytes]]:
    """The same request over and over."""
    text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()

    def requests(key: str, _: int) -> Iterator[bytes]:
        asked = request(path, key, text, **headers)
        while True:
            yield asked

    return requests


def _numbered(key: str, connection: int) -> Iterator[bytes]:
    """Small submits, each another one."""
    for number in count():
        body = {"tool": "note", "payload": {"text": f"{connection} {number}"}}
        yield request("/api/jobs", key, json.dumps(body).encode())


_BATCH: Final = {"items": [{"tool": "note", "payload": {"n": n}} for n in range(MANY)]}
_NUMBERS: Final = {"tool": "note", "payload": {"numbers": [1e300] * (BODY // 8 - 100)}}
_KEYS: Final = b'{"tool": "note", "payload": {%s, "k1": 1}}' % b",".join(b'"k%d": 1' % n for n in range(BODY // 13))
_DEEP: Final = b'{"tool": "note", "payload": {"a": %s%s}}' % (b"[" * 400_000, b"]" * 400_000)

ATTACKS: Final[Mapping[str, Attack]] = {
    "refused-batches": Attack("batches of 10,000 that its plan refuses", TIGHT, _again("/api/batches", _BATCH)),
    "refused-submits": Attack("submits that its plan refuses", TIGHT, _numbered, connections=64),
    "submits": Attack("submits that are admitted", RICH, _numbered, connections=64),
    "quotes": Attack(
        "quotes of 40,000 items, which are 10,000 jobs",
        RICH,
        _again("/api/quote", {"tool": "draw", "payload": {"n": 4 * MANY, "prompt": "x" * 1_000}}),
    ),
    "list-quotes": Attack(
        "quotes of a list of 10,000 items, each priced by itself",
        RICH,
        _again("/api/quote", {"tool": "embed", "payload": {"texts": [str(n) for n in range(MANY)]}}),
    ),
    "repeated-batches": Attack(
        "the same batch of 10,000 over and over, under one key",
        RICH,
        _again("/api/batches", _BATCH, idempotency_key="again"),
    ),
    "numbers": Attack("bodies of 1 MB, all numbers", RICH, _again("/api/jobs", _NUMBERS)),
    "keys": Attack("bodies of 1 MB, all keys, one of them repeated", RICH, _again("/api/jobs", _KEYS)),
    "depth": Attack("bodies of 800 KB, all brackets", RICH, _again("/api/jobs", _DEEP)),
    "lists": Attack("pages of 1,000 jobs with payloads", RICH, _again("/api/jobs?limit=1000")),
    "streams": Attack("streams of its account, opened and closed", RICH, _again("/api/account/events"), 64, holds=True),
    "admitted-batches": Attack(
        "batches of 10,000 that are admitted and paid for",
        RICH,
        _again("/api/batches", _BATCH),
        connections=2,
        is_target=False,
    ),
}
