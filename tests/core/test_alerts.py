"""What is told to an operator, and from where on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ficha.core.alerts import (
    FAILING,
    FIGURES_LATE_S,
    LATE_MOST,
    RISING,
    SILENT_S,
    SLOW_RUNS,
    STUCK_JOBS,
    WAIT_S,
    Circumstances,
    PoolLoad,
    alerts,
)
from ficha.core.figures import duration_bucket
from ficha.core.policy import SECOND
from ficha.core.records import Figures, JobCounts, Pool, Worker

CONSOLE_PAGES = set(re.findall(r'to: "(/[a-z-]*)"', Path("web/console/src/pages.ts").read_text()))
NOW = 10**15
WORKER = Worker("w1", "host", 1, ("gpu",), 4, "1", 10_000, NOW, NOW)
GONE = replace(WORKER, name="w9", seen_at=NOW - SILENT_S * SECOND)


def runs(count: int, seconds: float) -> Figures:
    return Figures(runs={duration_bucket(int(seconds * SECOND)): count})


def waits(count: int, seconds: float) -> Figures:
    return Figures(waits={duration_bucket(int(seconds * SECOND)): count})


def ended(*, failed: int, completed: int = 0) -> Figures:
    """Of one tool, in two plans, beside another tool whose jobs succeed."""
    return Figures(
        counts=(
            JobCounts("pro", "draw", "gpu", failed=failed - 1, completed=completed),
            JobCounts("free", "draw", "gpu", failed=1),
            JobCounts("pro", "sing", "gpu", completed=1_000),
        )
    )


def told(**circumstances: Any) -> list[tuple[str, str]]:
    return [(alert.code, alert.severity) for alert in alerts(Circumstances(NOW, **circumstances))]


@pytest.mark.parametrize(
    ("circumstances", "code"),
    [
        ({}, None),
        ({"pools": (PoolLoad(Pool("gpu"), 1, 0),)}, "POOL_WITHOUT_WORKER"),
        ({"pools": (PoolLoad(Pool("gpu"), 0, 0),)}, None),
        ({"pools": (PoolLoad(Pool("gpu"), 1, 1),)}, None),
        ({"pools": (PoolLoad(Pool("gpu"), 1, 0),), "workers": (WORKER,)}, None),
        ({"pools": (PoolLoad(Pool("cpu"), 1, 0),), "workers": (WORKER,)}, "POOL_WITHOUT_WORKER"),
        ({"pools": (PoolLoad(Pool("gpu", paused=True), 1, 0),)}, "POOL_PAUSED"),
        ({"pools": (PoolLoad(Pool("gpu", paused=True), 0, 0),)}, None),
        ({"workers": (GONE,)}, "WORKER_SILENT"),
        ({"workers": (replace(GONE, seen_at=GONE.seen_at + 1),)}, None),
        ({"pools": (PoolLoad(Pool("gpu"), 0, 0, None, NOW - SILENT_S * SECOND),)}, "NO_HEARTBEAT"),
        ({"pools": (PoolLoad(Pool("gpu"), 0, 0, None, NOW - SILENT_S * SECOND + 1),)}, None),
        ({"pools": (PoolLoad(Pool("gpu"), 9, 1, NOW - WAIT_S * SECOND),)}, "WAITS_LONG"),
        ({"pools": (PoolLoad(Pool("gpu"), 9, 1, NOW - WAIT_S * SECOND + 1),)}, None),
        ({"pools": (PoolLoad(Pool("gpu"), 9, 1, NOW - WAIT_S * SECOND),), "day_before": waits(20, 60)}, "WAITS_LONG"),
        ({"pools": (PoolLoad(Pool("gpu"), 9, 1, NOW - WAIT_S * SECOND),), "day_before": waits(20, 600)}, None),
        (
            {"pools": (PoolLoad(Pool("gpu"), 9, 1, NOW - 10**10),), "day_before": waits(20, 600)},
            "WAITS_LONG",
        ),
        ({"last_hour": ended(failed=FAILING, completed=4 * FAILING - 1)}, "JOBS_FAILING"),
        ({"last_hour": ended(failed=FAILING, completed=4 * FAILING)}, None),
        ({"last_hour": ended(failed=FAILING - 1)}, None),
        ({"stuck": STUCK_JOBS}, None),
        ({"stuck": STUCK_JOBS + 1}, "JOBS_STUCK"),
        ({"providers_down": {"fal": None}}, "PROVIDER_DOWN"),
        ({"last_hour": Figures(dead=RISING)}, "DEAD_LETTERS_RISING"),
        ({"last_hour": Figures(dead=RISING - 1)}, None),
        ({"last_hour": Figures(dead=RISING), "day_before": Figures(dead=24 * RISING)}, None),
        ({"last_hour": Figures(dead=2 * RISING), "day_before": Figures(dead=24 * RISING)}, "DEAD_LETTERS_RISING"),
        ({"last_hour": runs(SLOW_RUNS, 120), "day_before": runs(SLOW_RUNS, 45)}, "RUNS_SLOW"),
        ({"last_hour": runs(SLOW_RUNS - 1, 120), "day_before": runs(SLOW_RUNS, 45)}, None),
        ({"last_hour": runs(SLOW_RUNS, 80), "day_before": runs(SLOW_RUNS, 45)}, None),
        ({"last_hour": runs(SLOW_RUNS, 8), "day_before": runs(SLOW_RUNS, 1)}, None),
        ({"late_messages": LATE_MOST}, None),
        ({"late_messages": LATE_MOST + 1}, "WEBHOOKS_LATE"),
        ({"late_hooks": LATE_MOST}, None),
        ({"late_hooks": LATE_MOST + 1}, "HOOKS_LATE"),
        ({"figures_late_us": FIGURES_LATE_S * SECOND}, None),
        ({"figures_late_us": FIGURES_LATE_S * SECOND + 1}, "FIGURES_LATE"),
        ({"has_gap": True}, "FIGURES_MISSING"),
    ],
    ids=str,
)
@pytest.mark.req("E8")
def test_each_alert_is_told_from_its_limit_on_and_leads_to_a_page(
    circumstances: dict[str, Any], code: str | None
) -> None:
    assert [found for found, _ in told(**circumstances)] == ([] if code is None else [code])
    for alert in alerts(Circumstances(NOW, **circumstances)):
        assert alert.link.split("?")[0] in CONSOLE_PAGES


def test_a_silent_worker_is_critical_only_where_nobody_else_serves_its_pool() -> None:
    assert told(workers=(GONE,)) == [("WORKER_SILENT", "critical")]
    assert told(workers=(GONE, WORKER)) == [("WORKER_SILENT", "warning")]
    assert told(workers=(replace(GONE, pools=("gpu", "cpu")), WORKER)) == [("WORKER_SILENT", "critical")]


def test_what_is_critical_comes_first_and_every_alert_leads_somewhere() -> None:
    found = alerts(
        Circumstances(
            NOW,
            (PoolLoad(Pool("gpu", paused=True), 1, 0), PoolLoad(Pool("cpu"), 3, 0)),
            stuck=99,
            providers_down={"fal": "502", "rh": None},
        )
    )
    assert [alert.severity for alert in found] == ["critical", "warning", "warning", "warning", "warning"]
    assert all(alert.link.startswith("/") and alert.text.endswith((".", "cpu")) for alert in found)
    words = "3 jobs wait in the pool cpu, and no live worker serves it. Start one: "
    assert found[0].text == f"{words}ficha worker --pools cpu"


def test_many_names_are_cut_short() -> None:
    workers = tuple(replace(GONE, name=f"w{n}") for n in range(7))
    [alert] = alerts(Circumstances(NOW, workers=workers))
    assert alert.text.startswith("workers w0, w1, w2, w3, w4 and 2 more sent no heartbeat for 15 minutes.")
