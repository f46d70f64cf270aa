"""The jobs that a claim or a promotion may take next: lists of ready jobs by pool, and of parked jobs by account."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from .loaded import Loaded
from .records import WAITING, Job, Parked, Ready

Entry = tuple[int, str]
"""A rank and a job's id. It may be old: the job may have moved since it was listed."""


class Claimable:
    """The lists that were loaded, each with the best job first. `jobs` has the jobs as they are now."""

    def __init__(
        self, jobs: Loaded[str, Job | None], ready: dict[str, list[str]], parked: dict[str, list[str]]
    ) -> None:
        self._jobs = jobs
        self._ready = Loaded({pool: self._listed(ids) for pool, ids in ready.items()})
        self._parked = Loaded({account: self._listed(ids) for account, ids in parked.items()})

    def _listed(self, ids: list[str]) -> list[Entry]:
        entries = [(_rank(self._jobs[job_id]), job_id) for job_id in ids]
        heapify(entries)
        return entries

    def add(self, job: Job) -> None:
        """Lists a job that has become ready, or was parked behind its account's limit."""
        place = job.place
        if type(place) is Ready:
            if job.spec.pool in self._ready:
                heappush(self._ready[job.spec.pool], (place.rank, job.id))
        elif type(place) is Parked and place.due_at is None and job.account_id in self._parked:
            heappush(self._parked[job.account_id], (place.rank, job.id))

    def add_account(self, account_id: str) -> None:
        """Begins an empty list for an account that was opened after the others were loaded."""
        self._parked[account_id] = []

    def may_have_ready(self, pool: str) -> bool:
        """Whether the pool's list has an entry, valid or not."""
        return bool(self._ready[pool])

    def next_ready(self, pools: tuple[str, ...]) -> Job | None:
        """The best ready job of these pools, removed from their lists; the caller claims it."""
        best: Entry | None = None
        best_pool = ""
        for pool in pools:
            entries = self._ready[pool]
            while entries and not self._stands(entries[0], Ready):
                heappop(entries)
            if entries and (best is None or entries[0] < best):
                best, best_pool = entries[0], pool
        if best is None:
            return None
        heappop(self._ready[best_pool])
        return self._jobs[best[1]]

    def next_parked(self, account_id: str) -> Job | None:
        """The account's best job parked behind its limit, removed from the list; the caller promotes it."""
        entries = self._parked[account_id]
        while entries:
            entry = heappop(entries)
            if self._stands(entry, Parked):
                return self._jobs[entry[1]]
        return None

    def _stands(self, entry: Entry, kind: type) -> bool:
        """Whether an entry is still valid."""
        job = self._jobs[entry[1]]
        return job is not None and type(job.place) is kind and _rank(job) == entry[0]


def _rank(job: Job | None) -> int:
    assert job is not None
    assert isinstance(job.place, WAITING), f"job {job.id} is listed as waiting but is not"
    return job.place.rank
