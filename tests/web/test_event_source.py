"""A browser's own EventSource at a job's stream: it stops once the job has ended, and resumes before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.browser import Visitor
from tests.support.server_process import Served

LISTEN = """([url, heardMost]) => new Promise((resolve) => {
    const heard = [];
    const source = new EventSource(url);
    for (const kind of ["job", "end"])
        source.addEventListener(kind, (message) => {
            heard.push([kind, message.lastEventId]);
            if (heard.length > heardMost) { source.close(); resolve({ heard, state: "still there" }); }
        });
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) resolve({ heard, state: "closed" }); };
})"""


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
@pytest.mark.parametrize("query", ["", "&after=2"])
def test_an_event_source_on_an_ended_job_stops(shop: Served, visit_shop: Callable[..., Visitor], query: str) -> None:
    with shop.client(shop.account(f"listener{query}")) as user:
        job = user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}}).json()["job_id"]
        token = user.post(f"/api/jobs/{job}/token").json()["token"]
        user.post(f"/api/jobs/{job}/cancel").raise_for_status()
    page = visit_shop().page
    connections: list[str | None] = []
    page.on("request", lambda request: connections.append(request.url) if "/events" in request.url else None)
    page.goto("/docs")

    found = page.evaluate(LISTEN, [f"/api/jobs/{job}/events?token={token}{query}", 8])

    first = "" if query else "2"
    assert found == {"heard": [["job", first], ["end", "2-end"]], "state": "closed"}
    assert len(connections) == 2
