"""An index of all waiting jobs: the lines as they were read, and what this process has changed in them since."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

from msgspec import Struct, field

from ..core.records import Job, Parked, Ready
from ..core.snapshot import JobChange
from ..store.waiting_columns import Key, Lines

RUNS: Final = 16
"""How many sorted runs may hold the keys of one line."""
TAIL: Final = 512
"""How many keys at the end of a run are searched first."""


class QueueIndex:
    """Ready jobs by pool, and by account the jobs parked for its concurrency."""

    def __init__(self, ready: Lines, parked: Lines) -> None:
        self.ready = Queue(ready)
        self.parked = Queue(parked)

    def follow(self, change: JobChange) -> None:
        """Applies a committed change of a job."""
        if change.before is not None:
            self._remove(change.before)
        self._add(change.after)

    def _add(self, job: Job) -> None:
        place = job.place
        if type(place) is Ready:
            self.ready.add(job.spec.pool, (place.rank, job.id))
        elif type(place) is Parked and place.due_at is None:
            self.parked.add(job.account_id, (place.rank, job.id))

    def _remove(self, job: Job) -> None:
        place = job.place
        if type(place) is Ready:
            self.ready.remove(job.spec.pool, (place.rank, job.id))
        elif type(place) is Parked and place.due_at is None:
            self.parked.remove(job.account_id, (place.rank, job.id))


class Keys:
    """An ordered set of keys, as a few sorted runs; the run with the highest last key comes first.

    Jobs of one priority arrive in order of time, so a key nearly always goes to the end of a run. In a single list,
    each insert of a better priority would shift all keys behind it.
    """

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[list[Key]] = []

    def add(self, key: Key) -> None:
        for run in self._runs:
            if run[-1] < key:
                run.append(key)
                return
            if run[bisect_left(run, key)] == key:
                return
        if len(self._runs) < RUNS:
            self._runs.append([key])
        else:
            insort(min(self._runs, key=len), key)

    def remove(self, key: Key) -> None:
        """Removes the key, if it is there."""
        for run in self._runs:
            index = bisect_left(run, key)
            if index < len(run) and run[index] == key:
                del run[index]
                if index == len(run):
                    self._runs = sorted(filter(None, self._runs), key=_end, reverse=True)
                return

    def find(self, key: Key) -> tuple[int, bool]:
        """How many keys come before this one, and whether it is in the set."""
        before, is_there = 0, False
        for run in self._runs:
            # Most lookups are for keys that were added lately.
            near = len(run) - TAIL
            index = bisect_left(run, key, near if near > 0 and run[near] < key else 0)
            before += index
            is_there = is_there or (index < len(run) and run[index] == key)
        return before, is_there

    def __len__(self) -> int:
        return sum(map(len, self._runs))


def _end(run: list[Key]) -> Key:
    return run[-1]


class _Delta(Struct):
    """What this process has added to a line and removed from it since it was read."""

    line: range
    length: int
    last: Key | None
    """The last key of the line. A new job usually comes behind it, and then needs no search."""
    added: Keys = field(default_factory=Keys)
    removed: Keys = field(default_factory=Keys)


class Queue:
    """Lines by owner: as they were read, with this process's changes."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._deltas: dict[str, _Delta] = {}

    def add(self, owner: str, key: Key) -> None:
        delta = self._deltas.get(owner) or self._new_delta(owner)
        if self._find_in_lines(delta, key)[1]:
            # It has come back, or was there already when the line was read.
            delta.removed.remove(key)
        else:
            delta.added.add(key)

    def remove(self, owner: str, key: Key) -> None:
        delta = self._deltas.get(owner) or self._new_delta(owner)
        if self._find_in_lines(delta, key)[1]:
            delta.removed.add(key)
        else:
            delta.added.remove(key)

    def _new_delta(self, owner: str) -> _Delta:
        line = self.lines.line(owner)
        delta = self._deltas[owner] = _Delta(line, len(line), self.lines.key(line[-1]) if line else None)
        return delta

    def _find_in_lines(self, delta: _Delta, key: Key) -> tuple[int, bool]:
        """As the line was read: how many of its jobs come before the key, and whether it has the key."""
        if delta.last is None or key > delta.last:
            return delta.length, False
        return self.lines.find(delta.line, key)

    def find(self, owner: str, key: Key) -> tuple[int, bool]:
        """How many jobs of the line come before this key, and whether it has the key."""
        delta = self._deltas.get(owner)
        if delta is None:
            return self.lines.find(self.lines.line(owner), key)
        before, is_there = self._find_in_lines(delta, key)
        added, is_added = delta.added.find(key)
        removed, is_removed = delta.removed.find(key)
        return before + added - removed, is_added or (is_there and not is_removed)

    def length(self, owner: str) -> int:
        delta = self._deltas.get(owner)
        if delta is None:
            return len(self.lines.line(owner))
        return delta.length + len(delta.added) - len(delta.removed)
