"""What a server process counts of itself: requests, how long they take, live streams.

Several processes that serve one port count in shared files, so that each can report for all: a scrape reaches any of
them. A restarted process continues in the files of the one it replaces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from multiprocessing import current_process
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, values
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

from ..core.measures import OTHER
from .metric_table import METRICS
from .supervisor import CHILD_NAME

REQUEST_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Other methods, and paths that no route has, count as `other`: anybody can send them."""
FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder of the shared files, as the client of Prometheus reads it."""
SHARED: Final = os.environ.get(FOLDER)


def _share() -> None:
    """Names the files of this process by its number among its siblings; if process ids named them, each restart would
    leave files behind. Deletes the count of live streams that its predecessor had open when it died."""
    name = current_process().name
    if SHARED is not None and name.startswith(CHILD_NAME):
        number = name.removeprefix(CHILD_NAME)
        Path(SHARED, f"gauge_livesum_{number}.db").unlink(missing_ok=True)
        values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]


_share()
_REGISTRY: Final = CollectorRegistry(auto_describe=False)


def _made(kind: type[Any], name: str, **more: Any) -> Any:
    metric = METRICS[name]
    return kind(metric.name, metric.help, metric.labels, registry=_REGISTRY, **more)


_requests: Final[Counter] = _made(Counter, "ficha_http_requests_total")
_seconds: Final[Histogram] = _made(Histogram, "ficha_http_request_seconds", buckets=REQUEST_BOUNDS_S)
streams: Final[Gauge] = _made(Gauge, "ficha_streams", multiprocess_mode="livesum")


def count_request(scope: Scope, status: int, took_s: float) -> None:
    """`took_s`: up to the beginning of the answer. What waits because its caller asked it to (`waits`) has no time."""
    method = scope["method"] if scope["method"] in METHODS else OTHER
    route: str = getattr(scope.get("route"), "path", None) or OTHER
    _requests.labels(method, route, str(status)).inc()
    if not scope.get("state", {}).get("waits"):
        _seconds.observe(took_s)


class ProcessCollector:
    """What this process counted, or all that share its files."""

    def collect(self) -> Iterator[Metric]:
        shared: Any = MultiProcessCollector
        found = _REGISTRY.collect() if SHARED is None else shared(None, SHARED).collect()
        for family in found:
            if family.name.startswith("ficha_"):
                # The client library adds the time at which each series began as a metric of its own.
                family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
                yield family


def memory_bytes() -> int | None:
    """What this process and those that it started hold in memory, or the whole server of which it is one process; None
    where the system does not say."""
    first = os.getppid() if SHARED is not None and current_process().name.startswith(CHILD_NAME) else os.getpid()
    try:
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return sum(_resident(pid) for pid in (first, *map(int, children)))
    except OSError:
        return None


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0  # It has just ended.
