"""The application under faults, and what must become of each of its jobs.

A job's end follows from its number, whoever runs it and however often it has to be begun, so that the oracle knows
every final state and every credit beforehand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple

from ficha import FinalError, JobContext, Lease, LeaseLost, Partial, Plan, Refused
from ficha.app import Ficha
from ficha.core.commands import Ending
from ficha.core.outcomes import Finished
from ficha.core.records import Status
from ficha.engine.committer import CommitLimits
from ficha.operations import LeaseOperations, StandingClaim
from tests.chaos.records import Record

COST: Final = 4
CREDITS: Final = 1_000_000_000
OPEN_ACCOUNTS: Final = ("ana", "cy", "di", "ed", "fay", "gus")
ACCOUNTS: Final = {"ana": "open", "bo": "two", **dict.fromkeys(OPEN_ACCOUNTS[1:], "open")}
"""Who pays, and by which plan."""
LEASE_S: Final = 1.0
HEARTBEAT_S: Final = 0.2
SWEEP_S: Final = 0.25
HANDLER_S: Final = 0.04


class End(NamedTuple):
    status: Status
    refunded: int


def end_of(number: int) -> End:
    """What must become of the job with this number."""
    match number % 10:
        case 3:
            return End("failed", COST)
        case 6:
            return End("completed", COST // 2)
        case _:
            return End("completed", 0)


class RecordedFicha(Ficha):
    """Writes down what a worker is told before the worker hears it."""

    def __init__(self, database: str, record: Record, lease_s: float = LEASE_S, **settings: Any) -> None:
        super().__init__(
            database,
            plans=[Plan("open"), Plan("two", max_running=4)],
            lease_s=lease_s,
            heartbeat_s=HEARTBEAT_S,
            sweep_s=SWEEP_S,
            # Faults come far more often here than in life, and a job is not to blame for them.
            max_recoveries=1_000,
            commit_limits=CommitLimits(give_up_s=10.0, conflict_tries=100, backoff_max_s=0.5),
            **settings,
        )
        self.record = record

    async def claim(
        self,
        pools: str | Sequence[str],
        *,
        limit: int = 1,
        worker: str,
        starts: bool = False,
        keeps_apart: bool = False,
    ) -> list[Lease]:
        granted = await super().claim(pools, limit=limit, worker=worker, starts=starts, keeps_apart=keeps_apart)
        return self._claimed(granted)

    def stand(self, pools: str | Sequence[str], *, limit: int, worker: str) -> StandingClaim:
        return RecordedStandingClaim(super().stand(pools, limit=limit, worker=worker), self._claimed)

    def _claimed(self, leases: list[Lease]) -> list[Lease]:
        for lease in leases:
            self.record.write(told="claimed", job=lease.job_id, epoch=lease.epoch, worker=lease.worker)
        return leases

    async def end_many(self, ends: Iterable[tuple[Lease, Ending]]) -> list[Finished | Refused]:
        said = list(ends)
        answers = await super().end_many(said)
        for (lease, _), answer in zip(said, answers, strict=True):
            self._ended(lease, answer)
        return answers

    def _ended(self, lease: Lease, answer: Finished | Refused) -> None:
        self._lost(lease, answer)
        if isinstance(answer, Finished):
            self.record.write(
                told="ended",
                job=lease.job_id,
                epoch=lease.epoch,
                status=answer.status,
                changed=answer.changed,
                refunded=answer.refunded,
            )
            if answer.changed:
                self.ended()

    @asynccontextmanager
    async def separate_operations(self, **options: Any) -> AsyncIterator[LeaseOperations]:
        async with super().separate_operations(**options) as operations:
            beat = operations.heartbeat

            async def heartbeat(leases: Lease | Iterable[Lease]) -> list[datetime | Refused]:
                held = [leases] if isinstance(leases, Lease) else list(leases)
                answers = await beat(held)
                for lease, answer in zip(held, answers, strict=True):
                    self._lost(lease, answer)
                return answers

            operations.heartbeat = heartbeat  # type: ignore[method-assign]
            yield operations

    def _lost(self, lease: Lease, answer: object) -> None:
        if isinstance(answer, LeaseLost):
            self.record.write(told="lost", job=lease.job_id, epoch=lease.epoch, worker=lease.worker)

    def ended(self) -> None:
        """Called for each job that this process has ended, after it was written down."""


class RecordedStandingClaim(StandingClaim):
    """Writes down what it got before its worker hears it."""

    def __init__(self, standing: StandingClaim, claimed: Callable[[list[Lease]], list[Lease]]) -> None:
        super().__init__(standing._standing)
        self._claimed = claimed

    def granted(self) -> list[Lease]:
        return self._claimed(super().granted())


def application(database: str, record: Record, *, handler_s: float = HANDLER_S, **settings: Any) -> RecordedFicha:
    app = RecordedFicha(database, record, **settings)

    @app.tool(cost=COST, timeout=4 * 3_600)
    async def draw(job: JobContext, number: int) -> Any:
        app.record.write(ran=job.id, number=number)
        await asyncio.sleep(handler_s)
        match end_of(number):
            case End("failed", _):
                raise FinalError("the provider said no")
            case End(_, 0):
                return {"number": number}
            case _:
                return Partial({"number": number}, delivered=1, of=2)

    return app
