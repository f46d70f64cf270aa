"""A job in the hands of a worker."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from ...core.outcomes import ClaimedJob
from ...core.payload import read_json
from ...core.records import Leased
from ...store.base import JobRow
from .dates import moment
from .jobs import JobView, job_view


class Lease(Struct, frozen=True, eq=False, gc=False):
    """A worker's hold on a job: a claim returns it, and later calls about the job need it as proof."""

    claimed: ClaimedJob
    job_id: str
    account: str
    epoch: int
    worker: str

    @classmethod
    def of(cls, claimed: ClaimedJob) -> Lease:
        return cls(claimed, claimed.job.id, claimed.job.account_id, claimed.epoch, claimed.worker)

    @property
    def job(self) -> JobView:
        """The job as it was claimed."""
        return job_view(JobRow(self.claimed.job, self.claimed.payload, None), self.claimed_at)

    @property
    def tool(self) -> str:
        return self.claimed.job.spec.tool

    @property
    def payload(self) -> Any:
        return read_json(self.claimed.payload)

    @property
    def claimed_at(self) -> int:
        place = self.claimed.job.place
        assert isinstance(place, Leased)
        return place.leased_at

    @property
    def expires_at(self) -> datetime:
        """When the lease ends unless a heartbeat extends it."""
        return moment(self.claimed.expires_at)

    @property
    def deadline_at(self) -> datetime:
        """When the run is timed out, whatever the heartbeats."""
        return moment(self.claimed.deadline_at)

    def __repr__(self) -> str:
        return f"Lease(job_id={self.job_id!r}, epoch={self.epoch}, worker={self.worker!r})"
