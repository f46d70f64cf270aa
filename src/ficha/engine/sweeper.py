"""The sweeper: finds what time has made due and hands it to the rules, job by job.

Many processes may run one; a lease row on the database's clock makes one of them the leader. Leading only saves work:
every act is judged again under the lock, so two sweepers at once do no harm.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..core.commands import ActingAs, Command, Elect, ExpireReservation, ForgetKey, Recover
from ..core.outcomes import Elected, Forgotten, Recovered, Refusal
from ..store.base import GetDue, StoreError

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("ficha.engine")

DUTY: Final = "sweeper"
LEAD_MS: Final = 30_000
RENEW_S: Final = 15.0
"""A leader renews long before its lease ends, and trusts it only until then. At most so long: where the leases of jobs
are short, that of the leader is half as long, so that its death delays no recovery."""
STEP_DOWN_S: Final = 1.0
LOOK_SHARE: Final = 0.05
LONGEST_PAUSE_S: Final = 10.0
"""Looking for what is due may take so much of the time: where it is slow, it is done less often, down to this."""
TIDY_S: Final = 60.0
"""How often the leader lets the store clear away what batches leave behind."""
MOST_ROUNDS: Final = 100
"""A sweep that finds this much work in a row leaves the rest to the next one."""


class SweepReport(Struct, frozen=True):
    """What one sweep did: jobs by what was done to them, and what was cleared away."""

    jobs: dict[str, int]
    reservations: int = 0
    keys: int = 0

    def __bool__(self) -> bool:
        return bool(self.jobs or self.reservations or self.keys)


class Sweeper:
    """Runs by itself once started, and on the back of ordinary calls in any case."""

    def __init__(self, engine: Engine, *, interval_s: float) -> None:
        self._engine = engine
        self._interval_s = interval_s
        self._owner = str(uuid.uuid4())
        self._lead_ms = max(1, min(LEAD_MS, engine.policy.lease_ms // 2))
        self._renew_s = RENEW_S * self._lead_ms / LEAD_MS
        self._leads_until = 0.0
        self._asks_again_at = 0.0
        self._swept_at = time.monotonic()
        self._look_s = 0.0
        self._tidies_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._nudged: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="ficha sweeper")

    async def stop(self) -> None:
        self._is_stopped = True
        tasks = [task for task in (self._task, self._nudged) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._step_down()

    async def _step_down(self) -> None:
        """Leaves the duty to whoever asks next, instead of letting them wait for the lease to end."""
        if time.monotonic() < self._leads_until:
            self._leads_until = 0.0
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(STEP_DOWN_S):
                    await self._engine.call(Elect(DUTY, self._owner, 0))

    def nudge(self) -> None:
        """Sweeps in the background if it is time: what keeps a deployment with no scheduler healing."""
        is_running = self._task is not None or (self._nudged is not None and not self._nudged.done())
        if not is_running and not self._is_stopped and time.monotonic() - self._swept_at >= self._pause_s():
            self._nudged = asyncio.create_task(self._turn(), name="ficha sweep")

    def _pause_s(self) -> float:
        return max(self._interval_s, min(self._look_s / LOOK_SHARE, LONGEST_PAUSE_S))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._pause_s() * random.uniform(0.8, 1.2))  # noqa: S311 (jitter, not a secret)
            await self._turn()

    async def _turn(self) -> None:
        self._swept_at = time.monotonic()
        try:
            if await self._leads():
                await self.sweep()
                await self._tidy()
        except StoreError as error:
            log.warning("a sweep was left out: %s", error)
        except Exception:
            log.exception("a sweep failed; the next one tries again")

    async def _tidy(self) -> None:
        if time.monotonic() >= self._tidies_at:
            self._tidies_at = time.monotonic() + TIDY_S
            await self._engine.store.tidy()

    async def _leads(self) -> bool:
        asked_at = time.monotonic()
        if asked_at >= self._asks_again_at:
            self._asks_again_at = asked_at + self._renew_s
            outcome = await self._engine.call(Elect(DUTY, self._owner, self._lead_ms))
            if isinstance(outcome, Elected) and outcome.leads:
                # Counted from before the call, so that this process never trusts the lease longer than the database.
                self._leads_until = asked_at + self._lead_ms / 1_000 * 29 / 30
        return time.monotonic() < self._leads_until

    async def sweep(self, actor: str | None = None) -> SweepReport:
        """One round of recovery and clean-up; goes on until nothing more is due. What it does to jobs because somebody
        asked for it, it does in the name of that `actor`."""
        policy = self._engine.policy
        jobs: Counter[str] = Counter()
        reservations = keys = 0
        for _ in range(MOST_ROUNDS):
            asked_at = time.monotonic()
            due = await self._engine.store.read(GetDue(policy.stuck_ms, policy.max_age_ms))
            self._look_s = time.monotonic() - asked_at
            commands: list[Command] = [
                *(Recover(job_id) if actor is None else ActingAs(actor, Recover(job_id)) for job_id in due.jobs),
                *(ExpireReservation(reservation_id) for reservation_id in due.reservations),
                *(ForgetKey(*name) for name in due.keys),
            ]
            changed = False
            # Each by itself, so that one that breaks its batch, over a row changed by hand, say, fails alone.
            outcomes = await asyncio.gather(*map(self._engine.call, commands), return_exceptions=True)
            for command, outcome in zip(commands, outcomes, strict=True):
                match outcome:
                    case Recovered(act=act) if act != "nothing":
                        jobs[act] += 1
                        changed = True
                    case Forgotten(changed=True):
                        reservations += isinstance(command, ExpireReservation)
                        keys += isinstance(command, ForgetKey)
                        changed = True
                    case Refusal():
                        log.warning("a sweep could not do %s: %s", command, outcome.message)
                    case BaseException():
                        log.error("a sweep could not do %s", command, exc_info=outcome)
            if not changed:
                break
        report = SweepReport(dict(jobs), reservations, keys)
        if report:
            log.info("swept: %s", report)
        return report
