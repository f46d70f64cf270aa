"""Runs seeds: `python -m tests.simulation --seeds 1000 --start 0`. A seed that fails is shown with its last events."""

from __future__ import annotations

import argparse
import os
import sys
import time

from .seeds import played
from .world import Report

SHOWN = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first")
    parser.add_argument("--keep-going", action="store_true", help="run all of them, whatever fails")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many run side by side")
    options = parser.parse_args()
    began_at = time.perf_counter()
    steps = commits = jobs = failed = done = 0
    virtual_s = worked_s = 0.0
    for report, seed_s in played(range(options.start, options.start + options.seeds), options.processes):
        done += 1
        steps += report.steps
        commits += report.commits
        jobs += report.jobs
        virtual_s += report.virtual_s
        worked_s += seed_s
        if report.wrong:
            failed += 1
            print(told(report), flush=True)
            if not options.keep_going:
                break
    took_s = time.perf_counter() - began_at
    print(
        f"{done} seeds, {failed} failed: {jobs:,} jobs, {commits:,} commits, {steps:,} steps and "
        f"{virtual_s / 3600:.1f} simulated hours in {took_s:.1f} s; {done / worked_s:.1f} seeds, "
        f"{commits / worked_s:,.0f} commits and {steps / worked_s:,.0f} steps per second of one core"
    )
    return 1 if failed else 0


def told(report: Report) -> str:
    """A failure, for whoever has to understand it."""
    return "\n".join(
        [
            f"seed {report.seed} fails; again with: python -m tests.simulation --seeds 1 --start {report.seed}",
            *(f"  {sentence}" for sentence in report.wrong[:5]),
            "its last events:",
            *(f"  {line}" for line in report.last[-SHOWN:]),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
