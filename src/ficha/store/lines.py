"""Jobs that wait, line after line, in columns.

A million of them as Python values take hundreds of megabytes, and seconds in which nothing else runs. The databases put
the columns together themselves, page by page, and what is left here is 24 bytes per job and a few copies.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct, field

PAGE: Final = 16_384
"""Jobs that a database hands over at once. Copying that many takes a millisecond or two, so the event loop goes on;
larger pages are no faster."""
ID_BYTES: Final = 16

Key = tuple[int, str]
"""A rank and a job id: the order of claims."""


def _column() -> array[int]:
    return array("q")


class Lines(Struct):
    """Lines of jobs, one after the other: by owner, and each in claim order. Job ids must be UUIDs.

    owners: whose line each is, a pool or an account, in the order of code points.
    ends: where each line ends in the two columns below; it begins where the one before it ends.
    ranks, ids: a number and 16 bytes per job.
    """

    owners: list[str] = field(default_factory=list)
    ends: array[int] = field(default_factory=_column)
    ranks: array[int] = field(default_factory=_column)
    ids: bytearray = field(default_factory=bytearray)

    def append(self, owners: Sequence[str], counts: Iterable[int], ranks: bytes, ids: bytes) -> bool:
        """Takes in the page after `last`: how many jobs each owner has in it, their ranks (8 bytes each, the highest
        first) and their ids. Answers whether the page was full, so that there may be another."""
        column = array("q", ranks)
        if sys.byteorder == "little":
            column.byteswap()
        if self.owners and self.owners[-1] == owners[0]:
            # The line goes on where the last page broke off.
            del self.owners[-1], self.ends[-1]
        self.owners += owners
        ends = accumulate(counts, initial=len(self.ranks))
        next(ends)
        self.ends.extend(ends)
        self.ranks += column
        self.ids += ids
        return len(column) == PAGE

    @property
    def last(self) -> tuple[str, int, str]:
        """The owner, rank and id of the last job; before all others if there is none yet."""
        return (self.owners[-1], *self.key(-1)) if self.owners else ("", 0, id_text(bytes(ID_BYTES)))

    def line(self, owner: str) -> range:
        """Where the owner's line is in the columns; empty if there is none."""
        index = bisect_left(self.owners, owner)
        if index == len(self.owners) or self.owners[index] != owner:
            return range(0)
        return range(self.ends[index - 1] if index else 0, self.ends[index])

    def key(self, index: int) -> Key:
        start = index % len(self.ranks) * ID_BYTES
        return self.ranks[index], id_text(self.ids[start : start + ID_BYTES])

    def find(self, line: range, key: Key) -> tuple[int, bool]:
        """How many of the line come before this key, and whether the job with this key is in the line."""
        rank, job_id = key
        first = bisect_left(self.ranks, rank, line.start, line.stop)
        if first == line.stop or self.ranks[first] != rank:
            return first - line.start, False
        # Jobs that were submitted together share their rank.
        sought = id_bytes(job_id)
        last = bisect_right(self.ranks, rank, first, line.stop)
        index = bisect_left(range(last), sought, first, last, key=self._id)
        return index - line.start, index < last and self._id(index) == sought

    def has_id(self, line: range, job_id: str) -> bool:
        """Whether the job is in this part of the columns, whatever its rank: this looks at all of it."""
        sought, stop = id_bytes(job_id), line.stop * ID_BYTES
        at = self.ids.find(sought, line.start * ID_BYTES, stop)
        while at >= 0 and at % ID_BYTES:
            at = self.ids.find(sought, at + 1, stop)
        return at >= 0

    def _id(self, index: int) -> bytearray:
        return self.ids[index * ID_BYTES : (index + 1) * ID_BYTES]

    def jobs(self) -> dict[str, list[Key]]:
        """The same as plain values, by owner."""
        return {owner: [self.key(index) for index in self.line(owner)] for owner in self.owners}


def id_bytes(job_id: str) -> bytes:
    return bytes.fromhex(job_id.replace("-", ""))


def id_text(job_id: bytes | bytearray) -> str:
    digits = job_id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
