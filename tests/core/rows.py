"""Jobs in rows, as a database keeps them: a wide row written at birth and at the end, and a hot row in between."""

from __future__ import annotations

from msgspec.structs import replace

from ficha.core.records import Checkpoint, Job
from ficha.core.snapshot import JobChange
from ficha.store.sql.jobs import job_rows


class Rows:
    """Follows `job_rows` to the letter and refuses an operation that does not fit the rows that are there."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.checkpoints: dict[str, Checkpoint | None] = {}
        self.hot: dict[str, dict[str, Job]] = {"ready": {}, "parked": {}, "leases": {}}

    def write(self, changes: list[JobChange]) -> None:
        rows = job_rows(changes)
        for job in rows.born:
            assert job.id not in self.jobs
            self.jobs[job.id] = job
        for job in rows.ended:
            assert self.jobs[job.id].finished_at is None
            assert job.finished_at is not None
            self.jobs[job.id] = job
        for job in rows.amended:
            before = self.jobs[job.id]
            # Of a job that is active, the wide row changes only where a run told what its provider took.
            assert before.finished_at is not None or before.provider_cost != job.provider_cost
            amended = replace(
                before,
                dead_at=job.dead_at,
                events=job.events,
                late_finishes=job.late_finishes,
                callbacks=job.callbacks,
                provider_cost=job.provider_cost,
            )
            assert amended != before
            self.jobs[job.id] = amended
        for job in rows.removed:
            assert job.removed_at is not None
            self.jobs[job.id] = job
        for job in rows.checkpoints:
            assert self.checkpoints.get(job.id) != job.checkpoint
            self.checkpoints[job.id] = job.checkpoint
        for name, table in self.hot.items():
            for job_id in rows.places.get(f"{name}_gone", ()):
                del table[job_id]
            for job in rows.places.get(f"{name}_new", ()):
                assert job.id not in table
                table[job.id] = job
            for job in rows.places.get(f"{name}_changed", ()):
                assert job.id in table
                table[job.id] = job

    def read(self, job_id: str) -> Job:
        """The job, put together from its rows."""
        job = replace(self.jobs[job_id], checkpoint=self.checkpoints.get(job_id))
        hot = [table[job_id] for table in self.hot.values() if job_id in table]
        assert len(hot) <= 1, f"job {job_id} has {len(hot)} hot rows"
        if not hot:
            return job
        return replace(
            job,
            status=hot[0].status,
            place=hot[0].place,
            epoch=hot[0].epoch,
            attempts=hot[0].attempts,
            recoveries=hot[0].recoveries,
            started_at=hot[0].started_at,
            events=hot[0].events,
            late_finishes=hot[0].late_finishes,
            callbacks=hot[0].callbacks,
            first_worker=hot[0].first_worker,
            first_run_at=hot[0].first_run_at,
        )
