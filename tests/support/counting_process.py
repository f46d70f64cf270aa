"""What a child does that the supervisor starts: it counts, and says what it and its siblings counted."""

from pathlib import Path


def count(folder: str, requests: int) -> None:
    # Only now: the name of the process and its environment decide where it counts.
    from ficha.server import process_metrics

    for _ in range(requests):
        process_metrics.count_request({"method": "GET"}, 200, 0.001)
    process_metrics.streams.inc()
    told = {family.name: family for family in process_metrics.ProcessCollector().collect()}
    [counted] = told["ficha_http_requests"].samples
    [streams] = told["ficha_streams"].samples
    Path(folder, "told").write_text(f"{counted.value:g} requests, {streams.value:g} streams")
