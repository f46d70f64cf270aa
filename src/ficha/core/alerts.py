"""Alerts: what an operator should look at now, and what to do about it.

They are computed from a few cheap figures: nothing read for them takes longer when there are more jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct, field

from .figures import percentile_s
from .policy import SECOND
from .records import Figures, Pool, Worker
from .workers import state_of

AlertCode = Literal[
    "POOL_WITHOUT_WORKER",
    "POOL_PAUSED",
    "WORKER_SILENT",
    "NO_HEARTBEAT",
    "WAITS_LONG",
    "JOBS_FAILING",
    "JOBS_STUCK",
    "PROVIDER_DOWN",
    "DEAD_LETTERS_RISING",
    "RUNS_SLOW",
    "WEBHOOKS_LATE",
    "HOOKS_LATE",
    "HOOKS_NOT_RUN",
    "SCHEDULES_NOT_FIRED",
    "FIGURES_LATE",
    "FIGURES_MISSING",
]
Severity = Literal["warning", "critical"]

STUCK_JOBS: Final = 10
"""More stuck jobs than this raise an alert; a few are recovered without help."""
SILENT_S: Final = 900
"""A worker that sent no heartbeat for this long raises an alert."""
LATE_MS: Final = 300_000
LATE_MOST: Final = 10
"""More than `LATE_MOST` webhook messages or hooks raise an alert if they are due for longer than `LATE_MS`."""
RISING: Final = 10
RISING_TIMES: Final = 2
"""New dead letters of the last hour raise an alert if they are at least `RISING`, and at least `RISING_TIMES` times the
hourly mean of the day before."""
SLOW_RUNS: Final = 20
SLOW_S: Final = 10.0
SLOW_TIMES: Final = 2
"""Runs raise an alert if the median of the last hour exceeds that of the day before by at least `SLOW_S`, and is at
least `SLOW_TIMES` times as long. Both periods need at least `SLOW_RUNS` runs."""
WAIT_S: Final = 600
WAIT_TIMES: Final = 4
"""A pool's longest-waiting job raises an alert if it has waited for `WAIT_S`, and `WAIT_TIMES` as long as 19 of 20 jobs
of the day before."""
FAILING: Final = 10
FAILING_SHARE: Final = 0.2
"""Failed jobs of a tool raise an alert if they were at least `FAILING` in the last hour, and more than this share of
those that ended. (For Prometheus: also requests to a provider.)"""
SERVER_ERRORS: Final = 10
SERVER_ERROR_SHARE: Final = 0.05
SLOW_ANSWER_S: Final = 2.5
"""For Prometheus alone: errors of the server among its answers, and how long 19 of 20 answers may take to begin."""
FIGURES_LATE_S: Final = 120
LONG_RUN_S: Final = 120
USUAL_RUN_S: Final = 45
"""For the alert rules of Prometheus (deploy/prometheus): an average run longer than `LONG_RUN_S` raises an alert, where
`USUAL_RUN_S` is usual. Another rule applies the ratio of the two to the average of the day before."""
NAMES: Final = 5
"""How many names an alert's text lists."""


class Alert(Struct, frozen=True):
    """Something to look at: a code that stays the same, how much it matters, what to do in words, and the page of the
    console that shows it."""

    code: AlertCode
    severity: Severity
    text: str
    link: str


class PoolLoad(Struct, frozen=True):
    """A pool, how many of its jobs are ready, and how many were started in the last minutes.

    waiting_since: since when the longest-waiting of them waits. heard_at: when the last heartbeat of a held job came.
    """

    pool: Pool
    ready: int
    started: int
    waiting_since: int | None = None
    heard_at: int | None = None


class Circumstances(Struct, frozen=True):
    """What alerts are computed from.

    workers: those that have not stopped and sent a heartbeat lately. last_hour, day_before: figures of the newest hour
    and of the 24 hours before it. figures_late_us: the age of the oldest commit whose figures are not added up yet.
    has_gap: whether figures of the time that is shown are missing. hooks_not_run: hooks that are late and that no live
    worker runs. schedules_not_fired: those with a slot that nobody has fired for `LATE_MS`.
    """

    now: int
    pools: tuple[PoolLoad, ...] = ()
    workers: tuple[Worker, ...] = ()
    providers_down: Mapping[str, str | None] = field(default_factory=dict)
    stuck: int = 0
    late_messages: int = 0
    late_hooks: int = 0
    hooks_not_run: tuple[str, ...] = ()
    schedules_not_fired: tuple[str, ...] = ()
    last_hour: Figures = field(default_factory=Figures)
    day_before: Figures = field(default_factory=Figures)
    figures_late_us: int = 0
    has_gap: bool = False


def alerts(seen: Circumstances) -> list[Alert]:
    """Returns the alerts, critical ones first."""
    found = [*_pools(seen), *_workers(seen), *_times(seen), *_jobs(seen), *_failing(seen), *_beside(seen)]
    return sorted(found, key=lambda alert: alert.severity != "critical")


def _pools(seen: Circumstances) -> Iterator[Alert]:
    served = _served(seen)
    for load in seen.pools:
        name = load.pool.name
        if not load.ready:
            continue
        if load.pool.paused:
            text = f"The pool {name} is paused and {_jobs_wait(load.ready)}. Resume it when they may start."
            yield Alert("POOL_PAUSED", "warning", text, "/pools")
        elif name not in served and not load.started:
            text = (
                f"{_jobs_wait(load.ready).capitalize()} in the pool {name}, and no live worker serves it. Start one: "
            )
            yield Alert("POOL_WITHOUT_WORKER", "critical", f"{text}ficha worker --pools {name}", "/workers")


def _served(seen: Circumstances) -> set[str]:
    return {pool for worker in seen.workers if state_of(worker, seen.now) == "alive" for pool in worker.pools}


def _workers(seen: Circumstances) -> Iterator[Alert]:
    silent = [worker for worker in seen.workers if seen.now - worker.seen_at >= SILENT_S * SECOND]
    if not silent:
        return
    served = _served(seen)
    alone = sorted({pool for worker in silent for pool in worker.pools if pool not in served})
    text = f"{_named('worker', [worker.name for worker in silent])} sent no heartbeat for {SILENT_S // 60} minutes. "
    if alone:
        text += f"Nobody else serves {_named('the pool', alone)}. Look at the machine and start the worker again."
        yield Alert("WORKER_SILENT", "critical", text, "/workers")
    else:
        text += "Others serve its pools. Look at the machine; a worker that is gone for good is forgotten after a day."
        yield Alert("WORKER_SILENT", "warning", text, "/workers")


def _times(seen: Circumstances) -> Iterator[Alert]:
    usual = percentile_s(seen.day_before.waits, 0.95)
    for load in seen.pools:
        name = load.pool.name
        if load.heard_at is not None and seen.now - load.heard_at >= SILENT_S * SECOND:
            text = (
                f"None of the jobs that are held in the pool {name} had a heartbeat for {SILENT_S // 60} minutes: who "
                "works on them is gone or hangs. They are recovered when their leases end; look at the machines."
            )
            yield Alert("NO_HEARTBEAT", "critical", text, "/workers")
        if load.waiting_since is None or load.pool.paused:
            continue
        waits_s = (seen.now - load.waiting_since) / SECOND
        if waits_s >= max(WAIT_S, WAIT_TIMES * (usual or 0.0)):
            text = f"A job in the pool {name} has waited for {waits_s / 60:.0f} minutes"
            text += "" if usual is None else f"; {usual:.0f} s is usual"
            yield Alert("WAITS_LONG", "warning", f"{text}. Look for free slots, workers and priorities.", "/pools")


def _failing(seen: Circumstances) -> Iterator[Alert]:
    failed, ended = Counter[str](), Counter[str]()
    for one in seen.last_hour.counts:
        failed[one.tool] += one.failed
        ended[one.tool] += one.completed + one.failed + one.cancelled
    for tool, count in sorted(failed.items()):
        if count >= FAILING and count > FAILING_SHARE * ended[tool]:
            text = f"{count} of the last hour's {ended[tool]} jobs of {tool} failed. See what they have in common."
            yield Alert("JOBS_FAILING", "warning", text, "/dead-letters")


def _jobs(seen: Circumstances) -> Iterator[Alert]:
    if seen.stuck > STUCK_JOBS:
        text = f"{seen.stuck} running jobs are overdue or silent. They are recovered by themselves while a server or a "
        yield Alert(
            "JOBS_STUCK", "warning", f"{text}worker runs; if the number stays, look there.", "/jobs?search=stuck:yes"
        )
    hourly = seen.day_before.dead / 24
    if seen.last_hour.dead >= RISING and seen.last_hour.dead >= RISING_TIMES * hourly:
        text = f"{seen.last_hour.dead} more dead letters than an hour ago. See what they have in common."
        yield Alert("DEAD_LETTERS_RISING", "warning", text, "/dead-letters")
    median, usual = (percentile_s(figures.runs, 0.5) for figures in (seen.last_hour, seen.day_before))
    is_enough = all(sum(figures.runs.values()) >= SLOW_RUNS for figures in (seen.last_hour, seen.day_before))
    if is_enough and median is not None and usual is not None and median >= max(usual + SLOW_S, SLOW_TIMES * usual):
        text = f"Half of the runs of the last hour took longer than {median:.0f} s; {usual:.0f} s is usual."
        yield Alert(
            "RUNS_SLOW", "warning", f"{text} Look for a slow provider or a busy machine.", "/jobs?search=since:1h"
        )


def _beside(seen: Circumstances) -> Iterator[Alert]:
    for name, error in sorted(seen.providers_down.items()):
        why = "" if error is None else f" ({error})"
        text = f"Nothing is sent to the provider {name}: its circuit breaker is open{why}. A probe goes out by itself."
        yield Alert("PROVIDER_DOWN", "warning", text, "/providers")
    if seen.late_messages > LATE_MOST:
        text = f"{seen.late_messages} webhook messages have been due for {LATE_MS // 60_000} minutes. Messages are "
        yield Alert("WEBHOOKS_LATE", "warning", f"{text}sent by workers: see that one runs.", "/webhooks")
    if seen.late_hooks > LATE_MOST:
        text = f"{seen.late_hooks} hooks have been due for {LATE_MS // 60_000} minutes. Hooks are run by workers: "
        yield Alert("HOOKS_LATE", "warning", f"{text}see that one runs, and look at its log.", "/workers")
    if seen.hooks_not_run:
        text = f"No live worker runs the {_named('hook', [*seen.hooks_not_run])}, and calls have been due for "
        text += f"{LATE_MS // 60_000} minutes. Start a worker with the application that declares them, or end one that "
        yield Alert("HOOKS_NOT_RUN", "warning", f"{text}is gone for good: ficha hooks forget NAME", "/workers")
    if seen.schedules_not_fired:
        text = f"No live process fires the {_named('schedule', [*seen.schedules_not_fired])}. Start one with the "
        text += "application that declares them, or pause one that is gone for good: ficha schedules pause NAME"
        yield Alert("SCHEDULES_NOT_FIRED", "warning", text, "/")
    if seen.figures_late_us > FIGURES_LATE_S * SECOND:
        text = (
            f"These figures end {seen.figures_late_us // (60 * SECOND)} minutes ago. They are added up by a server or "
        )
        yield Alert("FIGURES_LATE", "warning", f"{text}worker: see that one runs, and look at its log.", "/")
    if seen.has_gap:
        text = "Some figures of this time are missing: nothing added them up before they were deleted."
        yield Alert("FIGURES_MISSING", "warning", f"{text} The ledger and the jobs are whole.", "/")


def _jobs_wait(count: int) -> str:
    return "one job waits" if count == 1 else f"{count} jobs wait"


def _named(what: str, names: list[str]) -> str:
    plural = what if len(names) == 1 else f"{what}s"
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{plural} {', '.join(names[:NAMES])}{more}"
