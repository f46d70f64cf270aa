"""What all figures together must say: it follows from the jobs and the ledger alone."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import astuple, replace

from ficha.core.dataset import State
from ficha.core.error_groups import error_reason
from ficha.core.figures import CURSOR, STEPS, duration_bucket, total
from ficha.core.records import FigureCursor, Figures, JobCounts, Ready, Rollup


def as_the_state_says(state: State) -> Figures:
    """The figures of all that ever happened, from the jobs and the ledger alone."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    waits: Counter[int] = Counter()
    runs: Counter[int] = Counter()
    failures: Counter[str] = Counter()
    for job in state.jobs.values():
        mine = counts.setdefault((job.plan, job.spec.tool, job.spec.pool), Counter())
        mine["submitted"] += 1
        if job.status == "queued":
            mine["ready" if isinstance(job.place, Ready) else "parked"] += 1
        if job.started_at is not None:
            mine["started"] += 1
            waits[duration_bucket(job.started_at - job.created_at)] += 1
        if job.finished_at is not None:
            mine[job.status] += 1
            if job.status == "failed":
                failures[error_reason(job.error)] += 1
            if job.status == "completed" and job.started_at is not None:
                runs[duration_bucket(job.finished_at - job.started_at)] += 1
    money = Counter[str]()
    for entry in state.entries:
        money[{"charge": "charged", "refund": "refunded"}.get(entry.kind, "granted")] += entry.amount
    return Figures(
        tuple(
            JobCounts(*name, *(mine[field] for field in JobCounts.__struct_fields__[3:]))
            for name, mine in sorted(counts.items())
        ),
        dict(waits),
        dict(runs),
        dict(failures),
        sum(job.dead_at is not None for job in state.jobs.values()),
        -money["charged"],
        money["refunded"],
        money["granted"],
        sum(job.provider_cost or 0 for job in state.jobs.values()),
    )


def wrong_figures(state: State) -> list[str]:
    """Where the rollups and the cursor say something else than the jobs and the ledger. Reasons beyond the limit are
    not told apart, so they are only counted."""
    said = _reasons_counted(as_the_state_says(state))
    wrong = []
    for level in STEPS:
        told = total(rollup.figures for key, rollup in state.of(Rollup).items() if key.startswith(level))
        if _reasons_counted(told) != said:
            wrong.append(f"the figures by {level} say {told}, the jobs and the ledger {said}")
    cursor = state.of(FigureCursor).get(CURSOR)
    waiting = {(one.plan, one.tool, one.pool, one.ready, one.parked) for one in said.counts if one.ready or one.parked}
    known = set() if cursor is None else {astuple(one) for one in cursor.waiting if one.ready or one.parked}
    return wrong if known == waiting else [*wrong, f"{known} wait by the figures, {waiting} by their jobs"]


def _reasons_counted(figures: Figures) -> Figures:
    return replace(figures, failures={"": sum(figures.failures.values())})
