"""Runs seeds: `python -m tests.simulation --seeds 1000 --start 0`. A seed that fails is shown with its last events."""

from __future__ import annotations

import argparse
import sys
import time

from .world import Report, World

SHOWN = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first")
    parser.add_argument("--keep-going", action="store_true", help="run all of them, whatever fails")
    options = parser.parse_args()
    began_at, worked_from = time.perf_counter(), time.process_time()
    steps = commits = jobs = failed = done = 0
    virtual_s = 0.0
    for seed in range(options.start, options.start + options.seeds):
        report = World(seed).run()
        done += 1
        steps += report.steps
        commits += report.commits
        jobs += report.jobs
        virtual_s += report.virtual_s
        if report.wrong:
            failed += 1
            print(told(report))
            if not options.keep_going:
                break
    took_s, worked_s = time.perf_counter() - began_at, time.process_time() - worked_from
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
