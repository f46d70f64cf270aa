"""The conformance suite itself: it notices stores that are wrong, and it can be used without pytest."""

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from ficha.core.needs import Needs
from ficha.core.snapshot import Changes, Snapshot
from ficha.store.base import Committed, Decide, Decision, GetDue, JobRow, ListJobs
from ficha.store.memory import MemoryStore
from ficha.testing import Driver, ManualClock, StoreConformance


class Faulty(MemoryStore):
    """A memory store with one fault: in what it loads, in what it writes or in what it answers."""

    def __init__(
        self,
        clock: ManualClock,
        *,
        loads: Callable[[Snapshot], None] = lambda snapshot: None,
        writes: Callable[[Changes], Changes] = lambda changes: changes,
        answers: Callable[[Any, Any], Any] = lambda query, answer: answer,
    ) -> None:
        super().__init__(clock=clock)
        self._loads = loads
        self._writes = writes
        self._answers = answers

    async def transact(self, committer: str, number: int, needs: Needs, decide: Decide) -> Committed:
        decided: list[Decision] = []

        def faulty(snapshot: Snapshot) -> Decision:
            self._loads(snapshot)
            decided[:] = [decide(snapshot)]
            changes, outcomes = decided[0]
            return self._writes(changes), outcomes

        await super().transact(committer, number, needs, faulty)
        return Committed(*decided[0])

    async def read(self, query: Any) -> Any:
        return self._answers(query, await super().read(query))


class Partial(MemoryStore):
    """Keeps what a commit group wrote before it failed, as a store without transactions does."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)

    async def transact(self, committer: str, number: int, needs: Needs, decide: Decide) -> Committed:
        try:
            return await super().transact(committer, number, needs, decide)
        finally:
            self._markers[committer] = number


def loses_a_microsecond(snapshot: Snapshot) -> None:
    snapshot.jobs = {
        key: job if job is None or job.started_at is None else replace(job, started_at=job.started_at // 1_000 * 1_000)
        for key, job in snapshot.jobs.items()
    }


def mixes_up_the_queue(snapshot: Snapshot) -> None:
    snapshot.ready = {pool: sorted(jobs, reverse=True) for pool, jobs in snapshot.ready.items()}


def forgets_reservations(snapshot: Snapshot) -> None:
    snapshot.reservations_of = {account: [] for account in snapshot.reservations_of}


def drops_reasons(changes: Changes) -> Changes:
    return replace(changes, entries=[replace(entry, reason=None) for entry in changes.entries])


def mixes_up_events(changes: Changes) -> Changes:
    return replace(changes, events=changes.events[::-1])


def lists_one_too_many(query: Any, answer: Any) -> Any:
    return answer[:1] + answer if isinstance(query, ListJobs) and query.before else answer


def tells_truth_values_as_numbers(query: Any, answer: Any) -> Any:
    if isinstance(answer, list) and answer and isinstance(answer[0], JobRow):
        return [replace(row, job=replace(row.job, epoch=bool(row.job.epoch))) for row in answer]
    return answer


def is_late(query: Any, answer: Any) -> Any:
    return replace(answer, jobs=[]) if isinstance(query, GetDue) and len(answer.jobs) == 1 else answer


FAULTS: dict[str, Callable[[ManualClock], MemoryStore]] = {
    "keeps part of a failed group": Partial,
    "loses a microsecond": lambda clock: Faulty(clock, loads=loses_a_microsecond),
    "mixes up the queue": lambda clock: Faulty(clock, loads=mixes_up_the_queue),
    "forgets reservations": lambda clock: Faulty(clock, loads=forgets_reservations),
    "drops reasons": lambda clock: Faulty(clock, writes=drops_reasons),
    "mixes up events": lambda clock: Faulty(clock, writes=mixes_up_events),
    "lists one too many": lambda clock: Faulty(clock, answers=lists_one_too_many),
    "tells truth values as numbers": lambda clock: Faulty(clock, answers=tells_truth_values_as_numbers),
    "is late": lambda clock: Faulty(clock, answers=is_late),
}


def suite_tests() -> Iterable[str]:
    slow = "test_ten_thousand_jobs_are_submitted_run_and_cancelled_as_one_batch"
    return [name for name in dir(StoreConformance) if name.startswith("test_") and name != slow]


async def first_failure(make: Callable[[ManualClock], MemoryStore]) -> str | None:
    for name in suite_tests():
        clock = ManualClock()
        try:
            await getattr(StoreConformance(), name)(Driver(make(clock), clock))
        except Exception:
            return name
    return None


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_suite_fails_on_a_store_that(fault: str) -> None:
    assert await first_failure(FAULTS[fault]) is not None


async def test_the_suite_passes_on_the_store_that_the_faults_are_planted_in() -> None:
    assert await first_failure(Faulty) is None


def test_the_tools_for_tests_come_without_pytest() -> None:
    code = "import sys, ficha.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(1_000_000)
    assert [clock(), clock()] == [1_000_000, 1_000_000]
    clock.advance(0.000_001)
    clock.advance(86_400)
    assert clock() == 86_401_000_001
    clock.advance(-1)
    assert clock() == 86_400_000_001
