"""Live updates over HTTP: none lost, none twice, in order, however often the connection breaks."""

import json
import random
from collections.abc import Iterator

import httpx
import pytest

from tests.support.server_process import Served

CUTS = 100


def messages(lines: Iterator[str]) -> Iterator[tuple[str | None, str, object]]:
    """The id, kind and data of each message of a stream."""
    fields: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield fields.get("id"), fields.get("event", "message"), json.loads(fields.get("data", "null"))
            fields = {}


@pytest.mark.long_on("postgresql")
def test_a_client_cut_a_hundred_times_sees_every_event_once_and_in_order(server: Served, name: str) -> None:
    key = server.account(name)
    chance = random.Random(name)
    with server.client(key) as user, server.client(server.service) as service:
        job = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": name}}).json()["job_id"]
        lease = server.take(job)
        seen: list[int] = []
        kinds: list[str] = []
        for cut in range(CUTS):
            service.post("/api/worker/log", json={**lease, "text": f"line {cut}"}).raise_for_status()
            # It is cut in the middle of what there is to see, or where it would have to wait for more.
            _follow(user, job, seen, kinds, most=chance.randint(1, 3), upto=cut + 1)
        service.post("/api/worker/finish", json={**lease, "outcome": "completed"}).raise_for_status()
        while "completed" not in kinds:
            _follow(user, job, seen, kinds, most=1_000, upto=None)
        told = user.get(
            f"/api/jobs/{job}/events", params={"limit": 1000}, headers={"Accept": "application/json"}
        ).json()["items"]

    assert seen == [event["number"] for event in told]
    assert kinds == [event["kind"] for event in told]
    assert kinds.count("log") == CUTS


@pytest.mark.long_on("postgresql")
def test_a_browser_that_comes_back_after_the_end_is_told_to_stop(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        job = user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}}).json()["job_id"]
        events = f"/api/jobs/{job}/events"
        user.post(f"/api/jobs/{job}/cancel")
        first = _told(user, events)
        assert [kind for _, kind, _ in first] == ["submitted", "cancelled", "job", "end"]
        *_, (last, _, _), _, (end, _, job_at_end) = first
        assert (last, end) == ("2", "2-end")

        # Cut off between the last event and the end: the end is still to be told.
        assert _told(user, events, last) == [(None, "job", job_at_end), ("2-end", "end", job_at_end)]
        # A page that has read the history before it listens gets no event, and yet an id to come back with.
        assert [number for number, _, _ in _told(user, f"{events}?after=2")] == [None, "2-end"]
        for accept in ("text/event-stream", "*/*"):
            stopped = user.get(events, headers={"Last-Event-ID": end, "Accept": accept})
            assert (stopped.status_code, stopped.content) == (204, b"")
        # An end that is not this job's last event is none.
        assert [number for number, _, _ in _told(user, events, "1-end")] == ["2", None, "2-end"]
        for wrong in ("-end", "2-end-end", "2end", "x-end"):
            assert user.get(events, headers={"Last-Event-ID": wrong}).json()["code"] == "INVALID_ARGUMENT", wrong
        assert user.get(events, headers={"Last-Event-ID": end, "Accept": "application/json"}).status_code == 200


def test_what_happens_to_a_job_after_its_end_is_told_before_the_stop(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user, server.client(server.admin) as admin:
        job = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": name}}).json()["job_id"]
        failed = {**server.take(job), "outcome": "failed", "error": "no"}
        admin.post("/api/worker/finish", json=failed).raise_for_status()
        events = f"/api/jobs/{job}/events"
        end = _told(user, events)[-1][0]
        admin.post(f"/api/admin/dead/{job}/requeue").raise_for_status()
        requeued, _, again = _told(user, events, end)
        assert (requeued[1], again[1]) == ("requeued", "end")
        assert again[0] == f"{requeued[0]}-end" != end
        assert user.get(events, headers={"Last-Event-ID": str(again[0])}).status_code == 204


def _told(user: httpx.Client, path: str, last: str | None = None) -> list[tuple[str | None, str, object]]:
    """All messages of the stream of a job that has ended."""
    with user.stream("GET", path, headers={} if last is None else {"Last-Event-ID": last}) as stream:
        assert stream.status_code == 200
        return list(messages(stream.iter_lines()))


def _follow(user: httpx.Client, job: str, seen: list[int], kinds: list[str], *, most: int, upto: int | None) -> None:
    """Reads on after what was seen, and cuts the line after so many events, or when all so far have come."""
    headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
    with user.stream("GET", f"/api/jobs/{job}/events", headers=headers) as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        for number, kind, _ in messages(stream.iter_lines()):
            if number is not None and kind != "end":
                seen.append(int(number))
                kinds.append(kind)
                most -= 1
            if most == 0 or (upto is not None and kinds.count("log") == upto):
                return


def test_a_stream_tells_the_job_its_place_and_its_end(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        job = user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x"}}).json()["job_id"]
        token = user.post(f"/api/jobs/{job}/token").json()["token"]
        heard: list[str] = []
        with server.client(None) as browser, browser.stream("GET", f"/api/jobs/{job}/events?token={token}") as stream:
            for _, kind, data in messages(stream.iter_lines()):
                heard.append(kind)
                if kind == "job":
                    assert isinstance(data, dict)
                    assert data["id"] == job
                    user.post(f"/api/jobs/{job}/cancel")
                if kind == "end":
                    assert isinstance(data, dict)
                    assert (data["status"], data["refunded"]) == ("cancelled", 5)
    assert heard[0] == "submitted"
    assert heard[-1] == "end"
    assert "cancelled" in heard


@pytest.mark.parametrize("jobs", [5])
def test_an_account_follows_all_its_jobs(server: Served, name: str, jobs: int) -> None:
    with server.client(server.account(name)) as user:
        ids = [
            user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": str(n)}}).json()["job_id"]
            for n in range(jobs)
        ]
        seen: list[tuple[int, str]] = []
        with user.stream("GET", "/api/account/events") as stream:
            for number, kind, data in messages(stream.iter_lines()):
                if number is not None:
                    assert isinstance(data, dict)
                    seen.append((int(number), data["job_id"]))
                if kind == "submitted" and len(seen) == jobs:
                    user.post(f"/api/jobs/{ids[0]}/cancel")
                if kind == "cancelled":
                    break

    assert [job for _, job in seen[:jobs]] == ids
    assert seen == sorted(seen)
