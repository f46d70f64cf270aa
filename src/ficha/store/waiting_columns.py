"""Waiting jobs as columns of numbers, sorted by owner and claim order.

A million jobs as Python objects take hundreds of megabytes, and block the process for seconds. So the databases build
the columns, page by page, and this module copies them into arrays of 24 bytes per job.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct, field

CHUNK: Final = 16_384
"""Jobs in one chunk. Chunks of one size do not fragment memory, and a full chunk is never copied again."""

Key = tuple[int, str]
"""A rank and a job id: the order of claims."""


class Chunk(Struct):
    """The rank and the two halves of the id of some jobs."""

    ranks: array[int]
    highs: array[int]
    lows: array[int]

    @classmethod
    def of(cls, ranks: bytes, ids: bytes) -> Chunk:
        """From 8 and 16 bytes per job, the highest byte first."""
        columns = array("q", ranks), array("Q", ids)
        if sys.byteorder == "little":
            for column in columns:
                column.byteswap()
        return cls(columns[0], columns[1][::2], columns[1][1::2])

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, part: slice) -> Chunk:
        return Chunk(self.ranks[part], self.highs[part], self.lows[part])

    def extend(self, other: Chunk) -> None:
        self.ranks += other.ranks
        self.highs += other.highs
        self.lows += other.lows

    def key(self, index: int) -> Key:
        digits = f"{self.highs[index]:016x}{self.lows[index]:016x}"
        job_id = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        return self.ranks[index], job_id

    def find(self, key: Key, start: int, stop: int) -> tuple[int, bool]:
        """The index of the key between `start` and `stop`, and whether a job with this key is there."""
        rank, job_id = key
        ranks, highs, lows = self.ranks, self.highs, self.lows
        first = bisect_left(ranks, rank, start, stop)
        if first == stop or ranks[first] != rank:
            return first, False
        # Jobs that were submitted together share their rank.
        last = bisect_right(ranks, rank, first, stop)
        high, low = _halves(job_id)
        first = bisect_left(highs, high, first, last)
        if first == last or highs[first] != high:
            return first, False
        if lows[first] != low:
            first = bisect_left(lows, low, first, bisect_right(highs, high, first, last))
        return first, first < last and highs[first] == high and lows[first] == low

    def has_id(self, job_id: str) -> bool:
        high, low = _halves(job_id)
        highs, sought, at = self.highs.tobytes(), high.to_bytes(8, sys.byteorder), -1
        while (at := highs.find(sought, at + 1)) >= 0:
            if at % 8 == 0 and self.lows[at // 8] == low:
                return True
        return False


class Lines(Struct):
    """Lines of waiting jobs: one line per owner, each in claim order. Job ids must be UUIDs.

    owners: the pool or account of each line, in the order of code points.
    ends: the index at which each line ends; a line begins where the one before it ends.
    chunks: the jobs, `CHUNK` in each.
    heads: the first key of each chunk.
    """

    owners: list[str] = field(default_factory=list)
    ends: array[int] = field(default_factory=lambda: array("q"))
    chunks: list[Chunk] = field(default_factory=list)
    heads: list[Key] = field(default_factory=list)

    def append(self, owners: Sequence[str], counts: Iterable[int], ranks: bytes, ids: bytes) -> int:
        """Appends the page after `last`: how many jobs each owner has in it, their ranks (8 bytes each) and their ids
        (16 bytes each), the highest byte first. Returns how many jobs the page has."""
        page, start = Chunk.of(ranks, ids), len(self)
        room = -start % CHUNK
        if room:
            self.chunks[-1].extend(page[:room])
        for at in range(room, len(page), CHUNK):
            self.chunks.append(page[at : at + CHUNK])
            self.heads.append(page.key(at))
        if self.owners and self.owners[-1] == owners[0]:
            # The last line of the page before continues on this page.
            del self.owners[-1], self.ends[-1]
        self.owners += owners
        ends = accumulate(counts, initial=start)
        next(ends)
        self.ends.extend(ends)
        return len(page)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def last(self) -> tuple[str, int, str]:
        """The owner, rank and id of the last job; if there is none yet, values that come before all jobs."""
        if not self.owners:
            return "", 0, "00000000-0000-0000-0000-000000000000"
        return self.owners[-1], *self.chunks[-1].key(-1)

    def line(self, owner: str) -> range:
        """The indexes of the owner's line; empty if there is none."""
        index = bisect_left(self.owners, owner)
        if index == len(self.owners) or self.owners[index] != owner:
            return range(0)
        return range(self.ends[index - 1] if index else 0, self.ends[index])

    def key(self, index: int) -> Key:
        return self.chunks[index // CHUNK].key(index % CHUNK)

    def find(self, line: range, key: Key) -> tuple[int, bool]:
        """How many jobs of the line come before this key, and whether the job with this key is in the line."""
        start, stop = line.start, line.stop
        if start == stop:
            return 0, False
        number, last = start // CHUNK, (stop - 1) // CHUNK
        if number < last:
            # The chunks after the first begin with jobs of this line.
            number = bisect_right(self.heads, key, number + 1, last + 1) - 1
        begin = number * CHUNK
        from_, to = start - begin, stop - begin
        at, is_there = self.chunks[number].find(key, from_ if from_ > 0 else 0, to if to < CHUNK else CHUNK)
        return at - from_, is_there

    def has_id(self, line: range, job_id: str) -> bool:
        """Whether the job is in this range, whatever its rank. This scans the whole range."""
        return any(chunk.has_id(job_id) for chunk in self._parts(line))

    def _parts(self, line: range) -> Iterator[Chunk]:
        for begin in range(line.start // CHUNK * CHUNK, line.stop, CHUNK):
            yield self.chunks[begin // CHUNK][max(line.start - begin, 0) : line.stop - begin]

    def jobs(self) -> dict[str, list[Key]]:
        """All lines as plain values, by owner."""
        return {owner: [self.key(index) for index in self.line(owner)] for owner in self.owners}


def _halves(job_id: str) -> tuple[int, int]:
    number = int(job_id.replace("-", ""), 16)
    return number >> 64, number & 0xFFFF_FFFF_FFFF_FFFF
