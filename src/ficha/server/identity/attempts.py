"""Failed attempts to authenticate in the last hour, by address and by the hint of a key.

The limit is for failed attempts only: a valid credential is always accepted, whatever others at the same address did.
Each process counts for itself and forgets when it ends, so a server of four processes allows up to four times as many;
guessing 160 random bits takes more than that.
"""

from __future__ import annotations

import ipaddress
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from .recent import Recent

HOUR_S: Final = 3_600.0
MAX_SUBJECTS: Final = 10_000
"""At the default limit, their timestamps take less than ten megabytes."""
_PEER_LENGTH: Final = 64


class Attempts:
    """Counts failed attempts exactly, over a sliding hour."""

    def __init__(self, per_hour: int, clock: Callable[[], float]) -> None:
        self._per_hour = per_hour
        self._clock = clock
        self._failed: Recent[str, array[float]] = Recent(MAX_SUBJECTS)

    def failed(self, peer: str, hint: str | None = None) -> float | None:
        """Counts a failed attempt; if there were too many already, returns how many seconds to wait instead.

        Attempts beyond the limit are not counted, so nobody has to stop for a full hour.
        """
        subjects = [f"peer {network(peer)}"] + ([] if hint is None else [f"key {hint}"])
        return max(filter(None, [self._count(subject) for subject in subjects]), default=None)

    def _count(self, subject: str) -> float | None:
        now = self._clock()
        failed = self._failed.get(subject, array("d"))
        failed = failed[bisect_right(failed, now - HOUR_S) :]
        is_full = len(failed) >= self._per_hour
        if not is_full:
            failed.append(now)
        self._failed.put(subject, failed)
        return failed[0] + HOUR_S - now if is_full else None


def network(peer: str) -> str:
    """The address; for IPv6 its first 64 bits, which one customer usually gets, and who can vary the rest at will."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer[:_PEER_LENGTH]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
