"""Recorded traffic: the jobs of a database, or of a file (JSON Lines as `ficha jobs --json` prints, or CSV).

A recording has no payloads, no results and no errors; a saved one has no names of accounts either. Refused submits are
not in it: a database does not keep them.
"""

from __future__ import annotations

import csv
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.policy import SECOND
from ..core.records import Status
from ..engine.views import JobView, instant
from ..tools import Tool
from .traffic import Arrival, RunEnd, Traffic, Unusable, percentile

BACKOFF_SHARE: Final = 0.75
"""Jitter shortens a backoff by up to a half, so it takes three quarters of its length on average."""
PATIENCE_SHARE: Final = 0.99
"""A cancelled job that waited for this share of its tool's `max_wait` counts as cancelled by the rule, not by its
owner."""


class RecordedJob(Struct, frozen=True, omit_defaults=True):
    """A job as a recording has it; the names are those of a job in Ficha's own answers.

    run_s: how long a run took, instead of `started_at` and `finished_at`.
    """

    created_at: datetime
    account: str
    plan: str
    tool: str
    status: Status = "completed"
    cost: int | None = None
    units: int = 1
    delivered: int | None = None
    attempts: int = 0
    max_attempts: int = 1
    is_first: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    run_s: float | None = None


_FIELDS: Final = tuple(RecordedJob.__struct_fields__)
_NEEDED: Final = ("created_at", "account", "plan", "tool")


def recorded_job(view: JobView) -> RecordedJob:
    return RecordedJob(**{name: getattr(view, name) for name in _FIELDS if name != "run_s"})


def read_file(path: Path) -> Iterator[RecordedJob]:
    """The jobs of a file, one per line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file) if path.suffix.lower() == ".csv" else _json_lines(file, path)
            for number, line in enumerate(lines, 2 if path.suffix.lower() == ".csv" else 1):
                yield _read(line, f"{path}, line {number}")
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Unusable(f"{path} is not UTF-8: a recording is JSON Lines or, named .csv, CSV") from None


def _json_lines(file: Iterable[str], path: Path) -> Iterator[Any]:
    for number, line in enumerate(file, 1):
        try:
            yield json.loads(line)
        except ValueError:
            raise Unusable(f"{path}, line {number} is not JSON: a recording has one job per line, or is CSV") from None


def _read(line: Any, where: str) -> RecordedJob:
    if not isinstance(line, Mapping):
        raise Unusable(f"{where} must be an object with {', '.join(_NEEDED)}, not {line!r}")
    known = {name: line[name] for name in _FIELDS if line.get(name) not in (None, "")}
    for name in _NEEDED:
        if name not in known:
            raise Unusable(f"{where} has no {name}; each job needs {', '.join(_NEEDED)}")
    try:
        return msgspec.convert(known, RecordedJob, strict=False)
    except msgspec.ValidationError as error:
        raise Unusable(f"{where}: {error}") from None


def anonymous(jobs: Iterable[RecordedJob]) -> Iterator[RecordedJob]:
    """Replaces the names of accounts by numbers."""
    numbers: dict[str, int] = {}
    for job in jobs:
        yield replace(job, account=f"account-{numbers.setdefault(job.account, len(numbers) + 1)}")


def save(jobs: Iterable[RecordedJob], path: Path) -> int:
    """Writes JSON Lines, without the names of accounts; returns how many jobs there are."""
    count = 0
    with path.open("wb") as file:
        for job in anonymous(_in_order(jobs)):
            file.write(msgspec.json.encode(job) + b"\n")
            count += 1
    return count


def recorded_traffic(jobs: Iterable[RecordedJob], tools: Mapping[str, Tool], plans: Container[str]) -> Traffic:
    """The traffic of recorded jobs of these tools and plans.

    Where a job's own run is not known, it takes as long as the tool's median run.
    """
    found = _in_order(jobs)
    if not found:
        raise Unusable("the recording has no jobs")
    left_out: Counter[str] = Counter()
    for job in found:
        if job.tool not in tools:
            left_out[f"are of tool {job.tool}, which is not declared"] += 1
        elif job.plan not in plans:
            left_out[f"are of plan {job.plan}, which is not declared"] += 1
    found = [job for job in found if job.tool in tools and job.plan in plans]
    runs: dict[str, list[int]] = {}
    for job in found:
        if job.status in ("completed", "failed") and (run_us := _run_us(job, tools[job.tool])) is not None:
            runs.setdefault(job.tool, []).append(run_us)
    medians = {tool: percentile(sorted(known), 0.5) for tool, known in runs.items()}
    arrivals = []
    for job in found:
        if job.status == "completed" and _run_us(job, tools[job.tool]) is None:
            left_out["were answered by an earlier result, or have no times"] += 1
        elif job.tool not in medians:
            left_out[f"are of tool {job.tool}, of which no run has ended"] += 1
        else:
            arrivals.append(_arrival(job, tools[job.tool], medians[job.tool]))
    if not arrivals:
        raise Unusable(f"no job of the recording can be replayed: {'; '.join(_notes(left_out))}")
    return Traffic(arrivals, arrivals[0].at, arrivals[-1].at + 1, _notes(left_out), _pickup_us(found, tools))


def _pickup_us(jobs: list[RecordedJob], tools: Mapping[str, Tool]) -> int:
    """Returns the median time from when a job could start, because it arrived or another one of its pool ended, to its
    start. Other starts, such as retries, are exceptions, and change the median little."""
    ends: dict[str, list[int]] = {}
    for job in jobs:
        if job.finished_at is not None and job.started_at is not None:
            ends.setdefault(tools[job.tool].pool, []).append(instant(job.finished_at))
    for known in ends.values():
        known.sort()
    gaps = []
    for job in jobs:
        if job.started_at is not None:
            known, started = ends.get(tools[job.tool].pool, []), instant(job.started_at)
            before = bisect_right(known, started)
            could = max(instant(job.created_at), known[before - 1] if before else 0)
            gaps.append(max(0, started - could))
    return percentile(sorted(gaps), 0.5)


def _notes(left_out: Counter[str]) -> tuple[str, ...]:
    return tuple(f"left out of the recording: {count} that {why}" for why, count in left_out.items())


def _in_order(jobs: Iterable[RecordedJob]) -> list[RecordedJob]:
    """Oldest first. Submits of one commit have the same time; a list that begins with the newest is turned around."""
    found = [*jobs]
    if found and instant(found[0].created_at) > instant(found[-1].created_at):
        found.reverse()
    return sorted(found, key=lambda job: instant(job.created_at))


def _arrival(job: RecordedJob, tool: Tool, median_us: int) -> Arrival:
    at = instant(job.created_at)
    run_us = _run_us(job, tool)
    end: RunEnd = "completed"
    failures, patience_us = job.attempts, None
    if job.status == "failed":
        end = "fatal" if 0 < job.attempts < job.max_attempts else "failed"
        failures = max(0, job.attempts - 1)
    elif job.status == "cancelled":
        if job.started_at is not None:
            end = "cancelled"
        elif job.finished_at is not None:
            patience_us = instant(job.finished_at) - at
            if tool.max_wait is not None and patience_us >= tool.max_wait * SECOND * PATIENCE_SHARE:
                patience_us = None
    delivered = job.delivered if job.status == "completed" and job.delivered != job.units else None
    is_known = run_us is not None and job.status in ("completed", "failed", "cancelled")
    return Arrival(
        at,
        job.account,
        job.plan,
        job.tool,
        run_us if is_known and run_us is not None else median_us,
        job.cost,
        job.units,
        delivered,
        failures,
        end,
        patience_us,
        job.is_first,
    )


def _run_us(job: RecordedJob, tool: Tool) -> int | None:
    """Returns how long one run of the job took: the time from start to end, less the backoffs, divided by its runs."""
    if job.run_s is not None:
        return max(1, int(job.run_s * SECOND))
    if job.started_at is None or job.finished_at is None:
        return None
    retries = job.attempts - (job.status == "failed") if job.attempts else 0
    paused_s = sum(min(tool.backoff_max, tool.backoff * 2**n) * BACKOFF_SHARE for n in range(min(retries, 40)))
    total_us = instant(job.finished_at) - instant(job.started_at)
    return max(1, (total_us - int(paused_s * SECOND)) // (retries + 1))
