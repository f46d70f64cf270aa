"""A look at all that waits: the lines as the database had them, and what this process did to them since."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

from msgspec import Struct, field

from ..core.records import Job, Parked, Ready
from ..core.snapshot import JobChange
from ..store.waiting_columns import Key, Lines

RUNS: Final = 16
"""How many rising runs the keys of one line may be kept in."""
LATEST: Final = 512
"""So many at the end of a run are searched first."""


class QueueIndex:
    """Ready jobs by pool, and by account those that wait for its own concurrency."""

    def __init__(self, ready: Lines, parked: Lines) -> None:
        self.ready = Queue(ready)
        self.parked = Queue(parked)

    def follow(self, change: JobChange) -> None:
        """Takes in a job that was committed."""
        if change.before is not None:
            self._drop(change.before)
        self._put(change.after)

    def _put(self, job: Job) -> None:
        place = job.place
        if type(place) is Ready:
            self.ready.add(job.pool, (place.rank, job.id))
        elif type(place) is Parked and place.due_at is None:
            self.parked.add(job.account_id, (place.rank, job.id))

    def _drop(self, job: Job) -> None:
        place = job.place
        if type(place) is Ready:
            self.ready.take(job.pool, (place.rank, job.id))
        elif type(place) is Parked and place.due_at is None:
            self.parked.take(job.account_id, (place.rank, job.id))


class Keys:
    """A set of keys in order, as a few runs that each rise; the run with the highest end comes first.

    Jobs of one priority come in the order of time, so that a key nearly always goes to the end of a run. In one list,
    each job of a better priority would push all the others along.
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
        """Takes the key out, if it is there."""
        for run in self._runs:
            index = bisect_left(run, key)
            if index < len(run) and run[index] == key:
                del run[index]
                if index == len(run):
                    self._runs = sorted(filter(None, self._runs), key=_end, reverse=True)
                return

    def find(self, key: Key) -> tuple[int, bool]:
        """How many keys come before this one, and whether it is there itself."""
        before, is_there = 0, False
        for run in self._runs:
            # Whoever is asked about was mostly added last.
            near = len(run) - LATEST
            index = bisect_left(run, key, near if near > 0 and run[near] < key else 0)
            before += index
            is_there = is_there or (index < len(run) and run[index] == key)
        return before, is_there

    def __len__(self) -> int:
        return sum(map(len, self._runs))


def _end(run: list[Key]) -> Key:
    return run[-1]


class _Since(Struct):
    """What this process has added to a line and taken from it since the look."""

    line: range
    length: int
    last: Key | None
    """The last key of the line. A new job comes behind it as a rule, and then need not be searched for."""
    added: Keys = field(default_factory=Keys)
    taken: Keys = field(default_factory=Keys)


class Queue:
    """Lines by owner, as they are now as far as this process knows."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._since: dict[str, _Since] = {}

    def add(self, owner: str, key: Key) -> None:
        since = self._since.get(owner) or self._begun(owner)
        if self._stands(since, key)[1]:
            # It is back, or the look has seen it already.
            since.taken.remove(key)
        else:
            since.added.add(key)

    def take(self, owner: str, key: Key) -> None:
        since = self._since.get(owner) or self._begun(owner)
        if self._stands(since, key)[1]:
            since.taken.add(key)
        else:
            since.added.remove(key)

    def _begun(self, owner: str) -> _Since:
        line = self.lines.line(owner)
        since = self._since[owner] = _Since(line, len(line), self.lines.key(line[-1]) if line else None)
        return since

    def _stands(self, since: _Since, key: Key) -> tuple[int, bool]:
        """What the look says of the key: how many of the line come before it, and whether it is in the line."""
        if since.last is None or key > since.last:
            return since.length, False
        return self.lines.find(since.line, key)

    def find(self, owner: str, key: Key) -> tuple[int, bool]:
        """How many jobs of the line come before this key, and whether the job with this key is in the line."""
        since = self._since.get(owner)
        if since is None:
            return self.lines.find(self.lines.line(owner), key)
        before, is_there = self._stands(since, key)
        added, is_added = since.added.find(key)
        taken, is_taken = since.taken.find(key)
        return before + added - taken, is_added or (is_there and not is_taken)

    def length(self, owner: str) -> int:
        since = self._since.get(owner)
        if since is None:
            return len(self.lines.line(owner))
        return since.length + len(since.added) - len(since.taken)
