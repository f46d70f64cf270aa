"""The sweeper: finds what is due (expired leases, schedules, old keys) and sends a command for each.

Each process may run one; a lease row, by the database's clock, makes one of them the leader. That only saves work: the
rules check each command again under its lock, so two sweepers at once do no harm.

A process takes its first turn when it opens, so that a short-lived one does its share. If it leads, its first lease
lasts until its next turn: however many processes open, one sweeps per interval.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..core.commands import ActingAs, Command, Elect, EndSession, ExpireReservation, ForgetKey, Recover
from ..core.cron_slots import next_slot
from ..core.outcomes import Elected, Forgotten, Recovered, Refusal, SessionEnded
from ..core.policy import SECOND
from ..core.sessions import over
from ..job_log import fields_of
from ..store.base import ClockDoubted, Due, GetDue, GetPageSessions, ListSessionJobs, StoreError
from .brakes import settle

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("ficha.engine")

DUTY: Final = "sweeper"
LEAD_MS: Final = 30_000
"""How long a leader's lease lasts. Where jobs have short leases, the leader's is half as long as theirs, so that its
death delays no recovery."""
RENEW_S: Final = 15.0
"""How often the leader's lease is renewed; more often where it is shorter, in proportion."""
LAST_S: Final = 1.0
"""How long a stopping process may take to finish its turn, and then to step down."""
SCAN_SHARE: Final = 0.05
"""The share of the time that scans for what is due may take: slow scans run less often."""
LONGEST_PAUSE_S: Final = 10.0
"""The longest pause that a slow scan causes."""
GRAIN_S: Final = 0.01
"""Jobs that fall due this close together are promoted by one sweep."""
SLOT_JITTER_S: Final = 0.25
"""Processes wake up for the slot of a schedule this far apart, at most: the first fires it, and the others see that."""
FIRE_AGAIN_S: Final = 5.0
"""After how long firing schedules is tried again when it failed, because the database is unreachable, say."""
TIDY_S: Final = 60.0
"""How often the leader lets the store clean up what commits leave behind."""
FILES_S: Final = 10.0
"""How often the leader looks for expired files."""
PRUNE_PAUSE_S: Final = 60.0
"""How often the leader looks for jobs to prune by age, while none is due."""
SESSIONS_AT_ONCE: Final = 20
"""Of how many accounts one round ends sessions, at most."""
SESSION_JOBS: Final = 50
"""How many queued jobs of a session one transaction cancels, at most."""
MAX_ROUNDS: Final = 100
"""After this many rounds that found work, a sweep leaves the rest to the next one."""
NEVER: Final = float("-inf")


class SweepReport(Struct, frozen=True):
    """What one sweep did: jobs by action, how many reservations it marked as expired or deleted, how many keys it
    deleted, how many files it removed, deleted, or found to be kept, and how many sessions of pages it ended."""

    jobs: dict[str, int]
    reservations: int = 0
    keys: int = 0
    files: int = 0
    sessions: int = 0

    def __bool__(self) -> bool:
        return bool(self.jobs or self.reservations or self.keys or self.files or self.sessions)


class Sweeper:
    """Sweeps on a timer once started, and otherwise when a call or read finds a sweep due (`nudge`)."""

    def __init__(self, engine: Engine, *, interval_s: float) -> None:
        self._engine = engine
        self._interval_s = interval_s
        self._owner = str(uuid.uuid4())
        self._lead_ms = max(1, min(LEAD_MS, engine.policy.lease_ms // 2))
        self._renew_s = RENEW_S * self._lead_ms / LEAD_MS
        self._is_settled = False
        """Whether this process was elected before. Its first term ends with its next turn: it may be short-lived."""
        self._leads_until = 0.0
        self._next_election_at = 0.0
        self._swept_at = NEVER
        self._scan_s = 0.0
        self._now = 0
        """The database's time at the last scan."""
        self._due: set[int] = set()
        """When the jobs fall due that this process knows of, in units of `GRAIN_S` of its clock."""
        self._sooner = asyncio.Event()
        self._next_due_at: dict[str, float] = {}
        """By pool, when the first job falls due that was not due yet at the last scan."""
        self._next_tidy_at = 0.0
        self._next_fold_at = 0.0
        self.sweep_files: Callable[[], Awaitable[int]] | None = None
        """Set by whoever can open the file storage."""
        self._next_files_at = 0.0
        self.fire_schedules: Callable[[], Awaitable[float]] | None = None
        """Set by an application that declares schedules: fires the due ones, and returns after how many seconds to call
        it again. It is called whoever leads: the leader may be another application."""
        self._next_slot_at = 0.0
        self.daily: Callable[[], Awaitable[bool]] | None = None
        """Set by whoever has work for the daily sweep: does a part of it, and returns whether more is left for the next
        turn. The work is begun once a day, and again by the next leader, so it must be safe to repeat."""
        self.daily_at = ("0 4 * * *", "UTC")
        """When the daily sweep begins: a cron expression and a time zone."""
        self._next_daily_at: int | None = None
        self._has_daily_rest = False
        self.prune: Callable[[], Awaitable[bool]] | None = None
        """Set by an application that sets ages: removes some of what is due by its age, and returns whether there may
        be more."""
        self._next_prune_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._nudge_task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="ficha sweeper")

    async def stop(self, grace_s: float = LAST_S) -> None:
        """Ends after the turn under way, which may be this process's only one, but waits no longer than the grace."""
        self._is_stopped = True
        self._sooner.set()
        tasks = [task for task in (self._task, self._nudge_task) if task is not None]
        if tasks and grace_s > 0:
            await asyncio.wait(tasks, timeout=min(grace_s, LAST_S))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._step_down()

    async def _step_down(self) -> None:
        """Shortens the lease to end at the time of the next turn, so that the next leader need not wait any longer."""
        now = time.monotonic()
        left_s = max(0.0, self._swept_at + self._pause_s() - now)
        if now + left_s < self._leads_until:
            self._leads_until = 0.0
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(LAST_S):
                    await self._engine.call(Elect(DUTY, self._owner, int(left_s * 1_000)))

    def nudge(self) -> None:
        """Starts a turn in the background if one is due, so that a deployment without a timer still recovers jobs."""
        is_running = self._task is not None or (self._nudge_task is not None and not self._nudge_task.done())
        if not is_running and not self._is_stopped and time.monotonic() >= self._swept_at + self._pause_s():
            self._nudge_task = asyncio.create_task(self._take_turn(), name="ficha sweep")

    def expect(self, waits_s: Iterable[float]) -> None:
        """Notes that jobs fall due in so many seconds: the timer sweeps then, whoever leads. Jobs that fall due later
        than in two turns are left to the leader, whose scans find them by then."""
        if self._task is None:
            return
        now, reach_s = time.monotonic(), min(2 * self._interval_s, LONGEST_PAUSE_S)
        found = {ceil((now + wait_s) / GRAIN_S) for wait_s in waits_s if wait_s <= reach_s}
        if found and (not self._due or min(found) < min(self._due)):
            self._sooner.set()
        self._due |= found

    def next_due_s(self, pools: Iterable[str]) -> float | None:
        """In how many seconds the first job of these pools falls due, by the last scan; None if it saw none."""
        found = [self._next_due_at[pool] for pool in pools if pool in self._next_due_at]
        return max(0.0, min(found) - time.monotonic()) if found else None

    def _pause_s(self) -> float:
        return max(self._interval_s, min(self._scan_s / SCAN_SHARE, LONGEST_PAUSE_S))

    async def _run(self) -> None:
        while True:
            await self._take_turn()
            turn_at = time.monotonic() + self._pause_s() * random.uniform(0.8, 1.2)  # noqa: S311 (jitter, not a secret)
            while await self._falls_due(turn_at):
                await self.try_sweep(within_s=0.0)
            if self._is_stopped:
                return

    async def _falls_due(self, turn_at: float) -> bool:
        """Waits until a known job falls due (True), or it is time for the next turn or to stop (False)."""
        while not self._is_stopped:
            await self._fire()
            due_at = self._wakes_at()
            wait_s = min(due_at, turn_at) - time.monotonic()
            if wait_s <= 0:
                return due_at < turn_at
            if self.fire_schedules is not None:
                wait_s = min(wait_s, max(0.0, self._next_slot_at - time.monotonic()))
            self._sooner.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._sooner.wait()
        return False

    def _wakes_at(self) -> float:
        """When the next job falls due, but not so soon that scans take more than their share of the time."""
        if not self._due:
            return float("inf")
        return max(min(self._due) * GRAIN_S, self._swept_at + max(GRAIN_S, self._scan_s / SCAN_SHARE))

    async def _take_turn(self) -> None:
        """Sweeps if this process leads, or nobody does."""
        self._swept_at = time.monotonic()
        # Where processes live for one turn only, all of them together tidy up about as often as a lasting leader.
        tidies = self._is_settled or random.random() < self._pause_s() / TIDY_S  # noqa: S311 (a share, not a secret)
        await self._fire()
        with _logged():
            if await self._leads():
                await self.sweep(within_s=0.0)
                await settle(self._engine)
                await self._look_at_files()
                await self._sweep_daily()
                await self._prune()
                # Commits are not deleted while more of them are left to be added up.
                if not await self._fold() and tidies:
                    await self._tidy()

    async def try_sweep(self, within_s: float = float("inf")) -> SweepReport | None:
        """Sweeps, whoever leads; returns None if the sweep failed. For `within_s` see `sweep`."""
        with _logged():
            return await self.sweep(within_s=within_s)
        return None

    async def _fire(self) -> None:
        """Fires the schedules whose slot has come."""
        if self.fire_schedules is None or time.monotonic() < self._next_slot_at:
            return
        self._next_slot_at = time.monotonic() + FIRE_AGAIN_S
        with _logged():
            if await self._engine.clock.is_doubted():
                return
            wait_s = await self.fire_schedules()
            jitter_s = random.uniform(0, SLOT_JITTER_S)  # noqa: S311 (jitter, not a secret)
            self._next_slot_at = time.monotonic() + wait_s + jitter_s

    async def _sweep_daily(self) -> None:
        """Begins the daily sweep if its time came while this process runs, and continues one that is not finished."""
        if self.daily is None:
            return
        if self._next_daily_at is None or self._now >= self._next_daily_at:
            self._has_daily_rest = self._next_daily_at is not None
            self._next_daily_at = next_slot(*self.daily_at, self._now)
        if self._has_daily_rest:
            self._has_daily_rest = await self.daily()

    async def _look_at_files(self) -> None:
        if self.sweep_files is not None and time.monotonic() >= self._next_files_at:
            self._next_files_at = time.monotonic() + FILES_S
            if (files := await self.sweep_files()) > 0:
                log.info("swept: %d files", files)

    async def _prune(self) -> None:
        """Prunes one page of jobs per turn, so that the time between two turns is the pause."""
        if self.prune is not None and time.monotonic() >= self._next_prune_at:
            self._next_prune_at = time.monotonic() + PRUNE_PAUSE_S
            with _logged():
                if await self.prune():
                    self._next_prune_at = 0.0

    async def _fold(self) -> bool:
        """Adds up figures if that is due; returns whether more are left."""
        if time.monotonic() < self._next_fold_at:
            return False
        is_behind = False
        with _logged():
            is_behind = await self._engine.figures.fold()
        self._next_fold_at = 0.0 if is_behind else time.monotonic() + self._engine.figures.pause_s
        return is_behind

    async def _tidy(self) -> None:
        if time.monotonic() >= self._next_tidy_at:
            self._next_tidy_at = time.monotonic() + TIDY_S
            if await self._engine.store.tidy(self._engine.policy.commits_kept_ms):
                self._next_tidy_at = 0.0

    async def _leads(self) -> bool:
        asked_at = time.monotonic()
        is_asking = asked_at >= self._next_election_at
        # A process whose clock may be wrong leaves the duty to others.
        if (is_asking or asked_at < self._leads_until) and await self._engine.clock.is_doubted():
            return False
        if is_asking:
            self._next_election_at = asked_at + self._renew_s
            term_ms = self._lead_ms if self._is_settled else min(self._lead_ms, max(1, int(self._pause_s() * 1_000)))
            outcome = await self._engine.call(Elect(DUTY, self._owner, term_ms))
            if isinstance(outcome, Elected) and outcome.leads:
                # Counted from before the call, so that this process never holds its lease for longer than the database.
                self._leads_until = asked_at + term_ms / 1_000 * 29 / 30
                if not self._is_settled:
                    self._is_settled, self._next_election_at = True, asked_at
                    return True
            elif isinstance(outcome, Elected):
                self._next_election_at = asked_at + min(self._renew_s, outcome.left_ms / 1_000)
        return time.monotonic() < self._leads_until

    async def sweep(self, actor: str | None = None, *, within_s: float = float("inf")) -> SweepReport:
        """Recovers and cleans up until nothing more is due. With `actor`, recoveries are audited in that name.

        within_s: how long to wait, at most, for a clock that may be wrong; ClockDoubted is raised then.
        """
        jobs: Counter[str] = Counter()
        reservations = keys = sessions = 0
        for _ in range(MAX_ROUNDS):
            due = await self._scan()
            commands: list[Command] = [
                *(Recover(job_id) if actor is None else ActingAs(actor, Recover(job_id)) for job_id in due.jobs),
                *(ExpireReservation(reservation_id) for reservation_id in due.reservations),
                *(ForgetKey(*name) for name in due.keys),
                *await self._session_ends(due),
            ]
            if commands:
                # Looked at after the scan, so that it sees each commit that the scan saw.
                await self._engine.clock.trusted(within_s)
            changed = False
            # One call each, so that a command that breaks its transaction (a row changed by hand, say) fails alone.
            outcomes = await asyncio.gather(*map(self._engine.call, commands), return_exceptions=True)
            for command, outcome in zip(commands, outcomes, strict=True):
                match outcome:
                    case Recovered(act=act) if act != "nothing":
                        jobs[act] += 1
                        changed = True
                        if act == "failed":
                            known = fields_of(outcome.job_id, status="failed")
                            log.warning("failed: lost or timed out, and not run again", extra=known)
                    case Forgotten(changed=True):
                        reservations += isinstance(command, ExpireReservation)
                        keys += isinstance(command, ForgetKey)
                        changed = True
                    case SessionEnded(cancelled=cancelled, changed=True):
                        assert isinstance(command, EndSession)
                        jobs["cancelled"] += cancelled
                        sessions += not command.more
                        changed = True
                    case Refusal():
                        log.warning("a sweep could not do %s: %s", command, outcome.message)
                    case BaseException():
                        log.error("a sweep could not do %s", command, exc_info=outcome)
            if not changed:
                break
        report = SweepReport(dict(+jobs), reservations, keys, sessions=sessions)
        if report:
            log.info("swept: %s", report)
        return report

    async def _session_ends(self, due: Due) -> list[EndSession]:
        """Returns commands that end expired sessions, with some of the jobs of each. The rule checks both again."""
        found = []
        for account_id in due.sessions[:SESSIONS_AT_ONCE]:
            known = await self._engine.store.read(GetPageSessions(account_id))
            for session in over(known, due.now):
                jobs = await self._engine.store.read(ListSessionJobs(account_id, session, SESSION_JOBS))
                found.append(EndSession(account_id, session, tuple(jobs), more=len(jobs) == SESSION_JOBS))
        return found

    async def _scan(self) -> Due:
        """Reads what is due, and notes what falls due next."""
        asked_at = self._swept_at = time.monotonic()
        grain = int(asked_at / GRAIN_S)
        expected = len(self._due)
        self._due = {due for due in self._due if due > grain}
        is_expected = len(self._due) < expected
        policy = self._engine.policy
        asked = GetDue(policy.stuck_ms, policy.max_age_ms, reservations_kept_ms=policy.reservations_kept_ms)
        due = await self._engine.store.read(asked)
        read_at = time.monotonic()
        self._now = due.now
        self._scan_s = read_at - asked_at
        waits_s = {pool: (at - due.now) / SECOND for pool, at in due.next.items()}
        self._next_due_at = {pool: read_at + wait_s for pool, wait_s in waits_s.items()}
        # A job that was expected now but is not due yet by the database's clock is expected again, whoever leads.
        if read_at < self._leads_until or (is_expected and not due.jobs):
            self.expect(waits_s.values())
        return due


@contextmanager
def _logged() -> Iterator[None]:
    """Logs the block's exception and drops it: the next turn tries again."""
    try:
        yield
    except ClockDoubted as error:
        log.debug("a sweep was skipped: %s", error)
    except StoreError as error:
        log.warning("a sweep was skipped: %s", error)
    except Exception:
        log.exception("a sweep failed; the next one tries again")
