"""The sweeper: finds what is due (expired leases, schedules, old keys) and sends a command for each.

Each process may run one; a lease row, by the database's clock, makes one of them the leader. That only saves work: the
rules check each command again under its lock, so two sweepers at once do no harm.
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
"""How long a leader's lease lasts, and how often it is renewed. Where jobs have short leases, the leader's is half as
long as theirs, so that its death delays no recovery."""
STEP_DOWN_S: Final = 1.0
SCAN_SHARE: Final = 0.05
LONGEST_PAUSE_S: Final = 10.0
"""Scans for what is due may take this share of the time: slow scans run less often, but at least every 10 s."""
TIDY_S: Final = 60.0
"""How often the leader lets the store clean up what commits leave behind."""
MAX_ROUNDS: Final = 100
"""After this many rounds that found work, a sweep leaves the rest to the next one."""


class SweepReport(Struct, frozen=True):
    """What one sweep did: jobs by action, and how many reservations and keys it removed."""

    jobs: dict[str, int]
    reservations: int = 0
    keys: int = 0

    def __bool__(self) -> bool:
        return bool(self.jobs or self.reservations or self.keys)


class Sweeper:
    """Sweeps on a timer once started, and otherwise when an ordinary call comes (`nudge`)."""

    def __init__(self, engine: Engine, *, interval_s: float) -> None:
        self._engine = engine
        self._interval_s = interval_s
        self._owner = str(uuid.uuid4())
        self._lead_ms = max(1, min(LEAD_MS, engine.policy.lease_ms // 2))
        self._renew_s = RENEW_S * self._lead_ms / LEAD_MS
        self._leads_until = 0.0
        self._next_election_at = 0.0
        self._swept_at = time.monotonic()
        self._scan_s = 0.0
        self._next_tidy_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._nudge_task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="ficha sweeper")

    async def stop(self) -> None:
        self._is_stopped = True
        tasks = [task for task in (self._task, self._nudge_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._step_down()

    async def _step_down(self) -> None:
        """Ends the leader's lease, so that the next leader need not wait for it to expire."""
        if time.monotonic() < self._leads_until:
            self._leads_until = 0.0
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(STEP_DOWN_S):
                    await self._engine.call(Elect(DUTY, self._owner, 0))

    def nudge(self) -> None:
        """Sweeps in the background if one is due: so a deployment where nothing runs in between still recovers jobs."""
        is_running = self._task is not None or (self._nudge_task is not None and not self._nudge_task.done())
        if not is_running and not self._is_stopped and time.monotonic() - self._swept_at >= self._pause_s():
            self._nudge_task = asyncio.create_task(self._sweep_if_leading(), name="ficha sweep")

    def _pause_s(self) -> float:
        return max(self._interval_s, min(self._scan_s / SCAN_SHARE, LONGEST_PAUSE_S))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._pause_s() * random.uniform(0.8, 1.2))  # noqa: S311 (jitter, not a secret)
            await self._sweep_if_leading()

    async def _sweep_if_leading(self) -> None:
        self._swept_at = time.monotonic()
        try:
            if await self._leads():
                await self.sweep()
                await self._tidy()
        except StoreError as error:
            log.warning("a sweep was skipped: %s", error)
        except Exception:
            log.exception("a sweep failed; the next one tries again")

    async def _tidy(self) -> None:
        if time.monotonic() >= self._next_tidy_at:
            self._next_tidy_at = time.monotonic() + TIDY_S
            if await self._engine.store.tidy(self._engine.policy.commits_kept_ms):
                self._next_tidy_at = 0.0

    async def _leads(self) -> bool:
        asked_at = time.monotonic()
        if asked_at >= self._next_election_at:
            self._next_election_at = asked_at + self._renew_s
            outcome = await self._engine.call(Elect(DUTY, self._owner, self._lead_ms))
            if isinstance(outcome, Elected) and outcome.leads:
                # From before the call, so this process never believes in the lease longer than the database does.
                self._leads_until = asked_at + self._lead_ms / 1_000 * 29 / 30
        return time.monotonic() < self._leads_until

    async def sweep(self, actor: str | None = None) -> SweepReport:
        """Recovers and cleans up until nothing more is due. With `actor`, recoveries are audited in that name."""
        policy = self._engine.policy
        jobs: Counter[str] = Counter()
        reservations = keys = 0
        for _ in range(MAX_ROUNDS):
            asked_at = time.monotonic()
            due = await self._engine.store.read(GetDue(policy.stuck_ms, policy.max_age_ms))
            self._scan_s = time.monotonic() - asked_at
            commands: list[Command] = [
                *(Recover(job_id) if actor is None else ActingAs(actor, Recover(job_id)) for job_id in due.jobs),
                *(ExpireReservation(reservation_id) for reservation_id in due.reservations),
                *(ForgetKey(*name) for name in due.keys),
            ]
            changed = False
            # One call each, so that a command that breaks its transaction (a row changed by hand, say) fails alone.
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
