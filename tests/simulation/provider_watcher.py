"""Books over jobs that a provider has: who may ask about them, whose word ends them, and who is told of their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ficha.core import commands as c
from ficha.core import outcomes as o
from ficha.core.dataset import State
from ficha.core.records import Awaiting, Job, ProviderOutage

from .database import Transaction
from .loop import VirtualLoop
from .provider_sites import ProviderSite, Work


class ProviderWatcher:
    """Looks at every commit, and at the end."""

    def __init__(self, loop: VirtualLoop, sites: Mapping[str, ProviderSite]) -> None:
        self._loop = loop
        self._sites = sites
        self._since: dict[str, float] = {}
        """job → since when its provider has had it"""
        self._untold: dict[str, Work] = {}
        """Work of jobs that ended without it: its provider must be told."""
        self._unasked: dict[str, Work] = {}
        """Work of jobs whose time ran out after the faults had stopped."""
        self._were_down: set[str] = set()
        self.healed_at = float("inf")

    def watch(self, transaction: Transaction) -> Iterator[str]:
        named = Counter(getattr(c.unwrapped(command), "job_id", None) for command in transaction.commands)
        for command, outcome in zip(map(c.unwrapped, transaction.commands), transaction.outcomes, strict=True):
            # What others in the same group did before it is not to be seen here.
            if named[getattr(command, "job_id", None)] == 1:
                yield from self._word(transaction, command, outcome)
        for change in transaction.changes.jobs:
            if change.after.spec.tool in self._sites:
                self._follow(change.before, change.after)
        self._were_down |= {row.provider for row in transaction.changes.keyed if isinstance(row, ProviderOutage)}

    def _word(self, transaction: Transaction, command: Any, outcome: Any) -> Iterator[str]:
        match command, outcome:
            case c.Finish(attempt=int(attempt)), o.Finished(changed=True):
                before = _before(transaction, command.job_id)
                if before.attempts != attempt:
                    yield f"what was said of run {attempt} ended run {before.attempts} of job {command.job_id}"
            case c.HoldPoll(held_at=None), o.PollHeld(job) if job is not None:
                place = _before(transaction, command.job_id).place
                if (
                    isinstance(place, Awaiting)
                    and place.poll_at is not None
                    and place.poll_at > transaction.snapshot.now
                ):
                    yield f"job {command.job_id} was taken, to ask its provider, while another one had it or too soon"

    def _follow(self, before: Job | None, after: Job) -> None:
        had = None if before is None or not isinstance(before.place, Awaiting) else before.place
        if isinstance(after.place, Awaiting):
            if had is None:
                self._since[after.id] = self._loop.now
            return
        since = self._since.pop(after.id, None)
        if had is None or since is None:
            return
        work = self._sites[after.spec.tool].by_ref[had.ref]
        error = (after.error or "") if after.status == "failed" else ""
        has_timed_out = error.startswith("the provider did not answer within")
        if after.status == "cancelled" or has_timed_out or error.startswith("not finished "):
            self._untold[after.id] = work
        if has_timed_out and since > self.healed_at:
            self._unasked[after.id] = work

    def wrong(self, state: State) -> Iterator[str]:
        """What is not so in the end."""
        for job_id, work in self._untold.items():
            if not work.cancels:
                yield f"job {job_id} ended without its provider, which was not told to cancel {work.ref}"
        for job_id, work in self._unasked.items():
            if not work.asked and state.jobs[job_id].spec.tool not in self._were_down:
                yield f"job {job_id} waited for its provider until its time ran out, and nobody asked about {work.ref}"
        for name, site in self._sites.items():
            jobs = {job.id: job for job in state.jobs.values() if job.spec.tool == name}
            yield from site.wrong(jobs, state.results)


def _before(transaction: Transaction, job_id: str) -> Job:
    job = transaction.snapshot.jobs[job_id]
    assert job is not None
    return job
