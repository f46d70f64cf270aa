"""Progress that a handler reports, and that is not written."""

import asyncio
from typing import Any

import pytest

from ficha.core.records import JobSpec
from ficha.worker.context import Facts, JobContext


@pytest.mark.parametrize("error", [asyncio.CancelledError, ConnectionError])
async def test_progress_that_was_not_written_can_be_reported_again(error: type[BaseException]) -> None:
    said = []

    async def lease_call(verb: str, *, progress: int) -> Any:
        said.append(progress)
        if len(said) == 1:
            raise error

    job = JobContext(Facts("a", "ana", JobSpec("draw", "default", 1), 1, 1, "w", "{}"), lease_call)
    with pytest.raises(error):
        await job.progress(50)
    await job.progress(50)
    await job.progress(50)
    assert said == [50, 50]
