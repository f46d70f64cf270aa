"""Figures: what each commit did to jobs and credits, and how that is added up by minute, by hour and over all time.

The figures of a commit follow from the rows that it changes, and are stored in the row of `commits` that it writes
anyway. Each is the difference of a number before and after the commit, so figures can be added in any order, and their
sum agrees with the jobs and the ledger. No query has to read the jobs again.

The sum of all time is a rollup of its own, `TOTAL`, which is never deleted. Its numbers that only rise feed counters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal

from msgspec.structs import astuple, replace

from .commands import CorrectQueue, FoldFigures, ForgetRollups
from .error_groups import error_reason
from .measures import OTHER, EndedCall, Gathered, all_measures, measured
from .outcomes import Folded, Forgotten
from .policy import HOUR, MILLISECOND, SECOND, Policy
from .records import Entry, FigureCursor, Figures, Job, JobCounts, Parked, QueueCount, Ready, Rollup
from .rule import Needs, Rule
from .snapshot import Changes
from .workspace import Workspace

Level = Literal["minute", "hour"]
Series = tuple[str, str, str]
"""A plan, a tool and a pool."""
Lengths = dict[tuple[str, int], int]
"""How many jobs of a plan or tool took how long, in microseconds. Jobs that share their commits share their length."""

CURSOR: Final = "figures"
"""The key of the one cursor."""
STEPS: Final[dict[Level, int]] = {"minute": 60 * SECOND, "hour": HOUR}
TOTAL: Final = "total"
"""The key of the one rollup of all time."""
MOST_SERIES: Final = 500
"""How many combinations of plan, tool and pool are counted separately; later ones count together as `other`."""
MOST_REASONS: Final = 20
"""How many reasons of failures one rollup has; later ones count together as `other`."""
MOST_LEFT_OUT: Final = 1_000
"""How many commit numbers may be left out, to be counted later; beyond that the oldest are dropped."""
_FINEST: Final = 10
_PARTS: Final = 4
_LONGEST: Final = (1 << 32) - 1
"""Durations are counted in units of 2^10 µs, about a millisecond, up to 2^32 of them, about 51 days. Up to 32 units
each has a bucket; above that, each doubling has 2^4 buckets of equal width, so a bucket is at most 6.25 % wide."""


# What a commit did


def figures_of(changes: Changes, calls: Collection[EndedCall] = ()) -> Figures | None:
    """The figures of a commit; None if it changed neither a job nor a balance, and no request to a provider ended."""
    if not changes.jobs and not changes.entries and not calls:
        return None
    series: dict[Series, list[int]] = {}
    waited: Lengths = {}
    ran: Lengths = {}
    failures: dict[str, int] = {}
    dead = provider_cost = 0
    for change in changes.jobs:
        before, after = change.before, change.after
        old, new = None if before is None else before.place, after.place
        if before is not None:
            dead += (after.dead_at is not None) - (before.dead_at is not None)
            if after.provider_cost is not before.provider_cost:
                provider_cost += (after.provider_cost or 0) - (before.provider_cost or 0)
            if type(old) is type(new) and after.started_at == before.started_at:
                continue
        else:
            dead += after.dead_at is not None
            provider_cost += after.provider_cost or 0
        name = after.plan, after.spec.tool, after.spec.pool
        counts = series.get(name)
        if counts is None:
            counts = series[name] = [0, 0, 0, 0, 0, 0, 0]
        if type(old) is Ready:
            counts[0] -= 1
        elif type(old) is Parked:
            counts[1] -= 1
        if type(new) is Ready:
            counts[0] += 1
        elif type(new) is Parked:
            counts[1] += 1
        if before is None:
            counts[2] += 1
        if after.started_at is not None and (before is None or before.started_at is None):
            counts[3] += 1
            wait = after.plan, after.started_at - after.created_at
            waited[wait] = waited.get(wait, 0) + 1
        if new is None:
            _count_end(after, counts, ran, failures)
    charged, refunded, granted = _money(changes.entries)
    made = tuple(JobCounts(*name, *counts) for name, counts in series.items() if any(counts))
    (waits, by_plan), (runs, by_tool) = _by_bucket(waited), _by_bucket(ran)
    measures = measured(by_plan, by_tool, changes.batches, changes.entries, calls)
    figures = Figures(made, waits, runs, failures, dead, charged, refunded, granted, provider_cost, measures)
    return figures if made or dead or provider_cost or changes.entries or measures else None


def _count_end(job: Job, counts: list[int], ran: Lengths, failures: dict[str, int]) -> None:
    if job.status == "completed":
        counts[4] += 1
        if job.started_at is not None and job.finished_at is not None:
            run = job.spec.tool, job.finished_at - job.started_at
            ran[run] = ran.get(run, 0) + 1
    elif job.status == "failed":
        counts[5] += 1
        reason = error_reason(job.error)
        failures[reason] = failures.get(reason, 0) + 1
    else:
        counts[6] += 1


def _by_bucket(lengths: Lengths) -> tuple[dict[int, int], Gathered]:
    """The durations by their bucket, and gathered by name."""
    buckets: dict[int, int] = {}
    by_name = Gathered()
    for (name, duration_us), jobs in lengths.items():
        bucket = duration_bucket(duration_us)
        buckets[bucket] = buckets.get(bucket, 0) + jobs
        by_name.add_time(name, duration_us, jobs)
    return buckets, by_name


def _money(entries: list[Entry]) -> tuple[int, int, int]:
    charged = refunded = granted = 0
    for entry in entries:
        match entry.kind:
            case "charge":
                charged -= entry.amount
            case "refund":
                refunded += entry.amount
            case _:
                granted += entry.amount
    return charged, refunded, granted


# Durations


def duration_bucket(duration_us: int) -> int:
    """The bucket that counts durations of this length."""
    units = 0 if duration_us < 0 else duration_us >> _FINEST
    if units > _LONGEST:
        units = _LONGEST
    doublings = units.bit_length() - _PARTS - 1
    return units if doublings <= 0 else (doublings << _PARTS) + (units >> doublings)


def bucket_bounds(bucket: int) -> tuple[int, int]:
    """Returns the lower and the upper bound of a bucket's durations, in microseconds."""
    doublings = max(0, (bucket >> _PARTS) - 1)
    units = bucket - (doublings << _PARTS)
    return units << doublings + _FINEST, units + 1 << doublings + _FINEST


def percentile_s(buckets: dict[int, int], share: float) -> float | None:
    """The duration that this share of all does not exceed, in seconds; None if there is none. It lies in the bucket of
    the exact value: within 6.25 % of it, or within 1.1 ms if it is short."""
    rank = share * sum(buckets.values())
    for bucket in sorted(buckets):
        count = buckets[bucket]
        if rank <= count and count:
            low, high = bucket_bounds(bucket)
            return (low + (high - low) * max(0.0, rank) / count) / SECOND
        rank -= count
    return None


# Added up


def total(parts: Iterable[Figures], known: frozenset[Series] | None = None) -> Figures:
    """The sum of figures, without their measures. Series that are not `known` count as `other`, and so do reasons
    beyond the limit."""
    series: dict[Series, list[int]] = {}
    waits: dict[int, int] = {}
    runs: dict[int, int] = {}
    failures: dict[str, int] = {}
    dead = charged = refunded = granted = provider_cost = 0
    for part in parts:
        for one in part.counts:
            name = one.plan, one.tool, one.pool
            if known is not None and name not in known:
                name = OTHER, OTHER, OTHER
            _add_counts(series, name, one)
        _add_buckets(waits, part.waits)
        _add_buckets(runs, part.runs)
        for reason, count in part.failures.items():
            named = reason if reason in failures or len(failures) < MOST_REASONS else OTHER
            failures[named] = failures.get(named, 0) + count
        dead += part.dead
        charged += part.charged
        refunded += part.refunded
        granted += part.granted
        provider_cost += part.provider_cost
    counts = tuple(JobCounts(*name, *numbers) for name, numbers in sorted(series.items()) if any(numbers))
    return Figures(counts, waits, runs, failures, dead, charged, refunded, granted, provider_cost)


def _add_counts(series: dict[Series, list[int]], name: Series, more: JobCounts) -> None:
    # (An overview of a day runs this tens of thousands of times; a loop over the fields takes five times as long.)
    numbers = series.get(name)
    if numbers is None:
        series[name] = [*astuple(more)[3:]]
        return
    numbers[0] += more.ready
    numbers[1] += more.parked
    numbers[2] += more.submitted
    numbers[3] += more.started
    numbers[4] += more.completed
    numbers[5] += more.failed
    numbers[6] += more.cancelled


def _add_buckets(into: dict[int, int], more: dict[int, int]) -> None:
    if not into:
        into.update(more)
        return
    for bucket, count in more.items():
        into[bucket] = into.get(bucket, 0) + count


def rollup_key(level: Level, begins_at: int) -> str:
    """Returns the key of a rollup. The keys of one level sort by time."""
    return f"{level} {begins_at // STEPS[level]:012d}"


def begin_of(level: Level, at: int) -> int:
    return at - at % STEPS[level]


def kept_us(policy: Policy, level: Level) -> int:
    kept_ms = policy.minute_figures_kept_ms if level == "minute" else policy.hour_figures_kept_ms
    return kept_ms * MILLISECOND


def fold_figures(ws: Workspace, command: FoldFigures) -> Folded:
    """Adds figures to the rollups, unless somebody has moved the cursor since they were read."""
    cursor = _cursor(ws)
    if cursor.turn != command.turn:
        return Folded(cursor, changed=False)
    assert cursor.number <= command.number, "the cursor of figures never goes back"
    assert set(command.came) <= set(cursor.left_out), "only numbers that were left out may come later"
    known = _known(cursor, command.figures)
    for begins_at, figures in command.figures:
        _add_to_rollups(ws, begins_at, figures, known)
    _add_to_total(ws, command, known)
    left_out = sorted({*cursor.left_out, *command.left_out} - {*command.came})
    cursor = replace(
        cursor,
        turn=cursor.turn + 1,
        number=command.number,
        folded_at=max(cursor.folded_at, command.folded_at),
        left_out=tuple(left_out[-MOST_LEFT_OUT:]),
        waiting=_waiting(cursor, [figures for _, figures in command.figures], known),
        gap_at=ws.now if command.has_gap else cursor.gap_at,
    )
    ws.put(cursor)
    return Folded(cursor)


def _cursor(ws: Workspace) -> FigureCursor:
    return ws.find(FigureCursor, CURSOR) or FigureCursor(CURSOR)


def _known(cursor: FigureCursor, parts: Iterable[tuple[int, Figures]]) -> frozenset[Series]:
    """Returns the series that are counted separately: those that are already, and new ones while there is room."""
    known = dict.fromkeys((one.plan, one.tool, one.pool) for one in cursor.waiting)
    for _, figures in parts:
        for one in figures.counts:
            if len(known) < MOST_SERIES:
                known.setdefault((one.plan, one.tool, one.pool))
    return frozenset(known)


def _add_to_rollups(ws: Workspace, at: int, figures: Figures, known: frozenset[Series] | None) -> None:
    for level in STEPS:
        begins_at = begin_of(level, at)
        key = rollup_key(level, begins_at)
        found = ws.find(Rollup, key)
        parts = (figures,) if found is None else (found.figures, figures)
        ws.put(Rollup(key, begins_at, total(parts, known)))


def _add_to_total(ws: Workspace, command: FoldFigures, known: frozenset[Series]) -> None:
    """Adds what counters need to the sum of all time. That sum has no reasons of failures, and its durations are in the
    measures. Its numbers of ready and parked jobs are not corrected, so nobody reads them."""
    if not command.figures and command.measures is None:
        return
    found = ws.find(Rollup, TOTAL)
    before = Figures() if found is None else found.figures
    parts = (before, *(figures for _, figures in command.figures))
    plans, tools = {plan for plan, _, _ in known}, {tool for _, tool, _ in known}
    measures = all_measures((before.measures, command.measures), plans, tools)
    figures = replace(total(parts, known), waits={}, runs={}, failures={}, measures=measures)
    ws.put(Rollup(TOTAL, ws.now if found is None else found.begins_at, figures))


def _waiting(cursor: FigureCursor, parts: list[Figures], known: frozenset[Series]) -> tuple[QueueCount, ...]:
    waiting = {(one.plan, one.tool, one.pool): (one.ready, one.parked) for one in cursor.waiting}
    for one in total(parts, known).counts:
        name = one.plan, one.tool, one.pool
        ready, parked = waiting.get(name, (0, 0))
        waiting[name] = ready + one.ready, parked + one.parked
    return tuple(QueueCount(*name, *counts) for name, counts in sorted(waiting.items()))


def correct_queue(ws: Workspace, command: CorrectQueue) -> Folded:
    """Takes over an exact count of the waiting jobs. The difference is added at the time of that count, so that charts
    end at the real queue."""
    cursor = _cursor(ws)
    if cursor.turn != command.turn:
        return Folded(cursor, changed=False)
    counted = Figures(tuple(JobCounts(*astuple(one)) for one in command.waiting))
    known = _known(cursor, [(command.at, counted)])
    believed = (JobCounts(one.plan, one.tool, one.pool, -one.ready, -one.parked) for one in cursor.waiting)
    difference = total([counted, Figures(tuple(believed))], known)
    if not difference.counts:
        return Folded(cursor, changed=False)
    _add_to_rollups(ws, command.at, difference, known)
    cursor = replace(cursor, turn=cursor.turn + 1, waiting=_waiting(cursor, [difference], known))
    ws.put(cursor)
    return Folded(cursor)


def forget_rollups(ws: Workspace, command: ForgetRollups) -> Forgotten:
    """Deletes those of the named rollups that are older than figures are kept."""
    old = [found for key in command.keys if (found := ws.find(Rollup, key)) is not None and _is_over(ws, found)]
    for rollup in old:
        ws.remove(rollup)
    return Forgotten(changed=bool(old))


def _is_over(ws: Workspace, rollup: Rollup) -> bool:
    if rollup.key == TOTAL:
        return False
    level: Level = "minute" if rollup.key.startswith("minute") else "hour"
    return rollup.begins_at + STEPS[level] <= ws.now - kept_us(ws.policy, level)


def _needs_fold(wanted: Needs, command: FoldFigures) -> None:
    wanted.find(FigureCursor, CURSOR)
    wanted.find(Rollup, TOTAL)
    for begins_at, _ in command.figures:
        wanted.find(Rollup, *(rollup_key(level, begin_of(level, begins_at)) for level in STEPS))


def _needs_correction(wanted: Needs, command: CorrectQueue) -> None:
    wanted.find(FigureCursor, CURSOR)
    wanted.find(Rollup, *(rollup_key(level, begin_of(level, command.at)) for level in STEPS))


def _needs_forget(wanted: Needs, command: ForgetRollups) -> None:
    wanted.find(Rollup, *command.keys)


RULES = (
    Rule(FoldFigures, decide=fold_figures, needs=_needs_fold, locks_account=False),
    Rule(CorrectQueue, decide=correct_queue, needs=_needs_correction, locks_account=False),
    Rule(ForgetRollups, decide=forget_rollups, needs=_needs_forget, locks_account=False),
)
