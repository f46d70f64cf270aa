"""Failed attempts: how many an address, or the hint of a key, has made in the last hour.

Only a credential that fails is ever refused for its number: whoever shows a good one is let in, whatever others behind
the same address did. The counts are this process's own and are gone when it ends, so a server of four processes hears
out up to four times as many; guessing 160 random bits takes more than that.
"""

from __future__ import annotations

import ipaddress
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from .recent import Recent

HOUR_S: Final = 3_600.0
MOST_SUBJECTS: Final = 10_000
"""At the default limit, their instants take less than ten megabytes."""
_PEER_LENGTH: Final = 64


class Attempts:
    """Counts what failed, exactly, over the hour before each attempt."""

    def __init__(self, per_hour: int, clock: Callable[[], float]) -> None:
        self._per_hour = per_hour
        self._clock = clock
        self._failed: Recent[str, array[float]] = Recent(MOST_SUBJECTS)

    def failed(self, peer: str, hint: str | None = None) -> float | None:
        """Counts one more, and says for how many seconds no further one is heard out, if there were too many already.

        One that is not heard out does not count, so that an hour without attempts is not asked of anybody.
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
    """The address, or for IPv6 the 64 bits that one customer usually gets: the other half can be changed at will."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer[:_PEER_LENGTH]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
