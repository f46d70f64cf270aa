"""Watching a job, live and by asking, with every way in which a stream can fail: each event is told once, in order."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ficha import EventView, JobView, NotFound, Refused
from ficha.client import Client, Wait
from ficha.client.effects import Open, Read
from ficha.outbound import Answer
from tests.client.flow_driver import JOB_ID, LOST, REFUSED, FlowDriver, Trial, event, job, ok, problem, receipt

LIVE = Answer(200, {"content-type": "text/event-stream; charset=utf-8"})
CLOSED = b""


def message(kind: str, data: Any, number: int | None = None) -> bytes:
    head = b"" if number is None else f"id: {number}\n".encode()
    return head + f"event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def told(number: int, kind: str = "log") -> bytes:
    return message(kind, event(number, kind), number)


END = message("end", job("completed", result={"n": 1}))
POSITION = {"position": 2, "estimated_wait_s": 3.5, "waiting_for": "place"}


def numbers(trial: Trial) -> list[int]:
    return [item.number for item in trial.emitted if isinstance(item, EventView)]


def test_a_stream_tells_the_history_the_place_and_the_end() -> None:
    parts = [told(1, "submitted"), message("job", job()) + message("position", POSITION), b": keep-alive\n\n"]
    trial = FlowDriver().drive(
        Client.watch, JOB_ID, replies=[LIVE, *parts, told(4, "claimed") + told(6, "completed") + END]
    )
    submitted, first, place, claimed, completed, last = trial.emitted
    assert [submitted.kind, claimed.kind, completed.kind] == ["submitted", "claimed", "completed"]
    assert (first.status, place) == ("queued", Wait(2, 3.5, "place"))
    assert (last.status, last.result) == ("completed", {"n": 1})
    (request,) = trial.opened
    assert request.headers["Last-Event-ID"] == "0"
    assert trial.sent == []


def test_a_stream_that_breaks_goes_on_where_it_was() -> None:
    replies = [LIVE, told(1) + told(2), LOST, LIVE, told(2) + told(3) + told(3), CLOSED, LIVE, told(4) + END]
    trial = FlowDriver(took_s=3.0).drive(Client.watch, JOB_ID, replies=replies)
    assert numbers(trial) == [1, 2, 3, 4]
    assert [request.headers["Last-Event-ID"] for request in trial.opened] == ["0", "2", "3"]
    assert len(trial.pauses) == 2
    assert trial.sent == [], "no reason to fall back"


def test_a_stream_that_is_taken_up_again_tells_only_what_has_changed() -> None:
    first = message("job", job(position=3)) + message("position", {**POSITION, "estimated_wait_s": None})
    replies = [LIVE, told(1) + first, LOST, LIVE, message("job", job(position=2)), LOST, LIVE]
    trial = FlowDriver(took_s=3.0).drive(
        Client.watch, JOB_ID, replies=[*replies, message("job", job(position=1)) + END]
    )
    assert [getattr(item, "position", "event") for item in trial.emitted] == ["event", 3, 2, 1, None]


def test_watching_can_begin_in_the_middle() -> None:
    trial = FlowDriver().drive(Client.watch, JOB_ID, after=5, replies=[LIVE, told(5) + told(6) + END])
    assert trial.opened[0].headers["Last-Event-ID"] == "5"
    assert numbers(trial) == [6]


def test_a_server_that_stops_says_when_to_come_back() -> None:
    stopping = b"event: reconnect\nretry: 1000\ndata: {}\n\n"
    replies: list[Any] = []
    for number in range(1, 8):
        replies += [LIVE, told(number) + stopping, CLOSED]
    trial = FlowDriver(drawn=0.5).drive(Client.watch, JOB_ID, replies=[*replies, LIVE, END])
    assert numbers(trial) == list(range(1, 8))
    assert trial.pauses == [1.1] * 7
    assert trial.sent == [], "however often: that is no break"


class Server:
    """A job that goes on with every look at it, for those who ask instead of listening."""

    def __init__(self, steps: list[tuple[dict[str, Any], int]]) -> None:
        self.steps = steps
        self.etag = ""
        self.looks = 0
        self.unchanged = 0

    def answer(self, step: Any) -> Answer:
        view, last = self.steps[min(self.looks, len(self.steps) - 1)]
        query = dict(step.query)
        if step.path.endswith("/events"):
            found = [event(number) for number in range(int(query["after"]) + 1, last + 1)][: int(query["limit"])]
            return ok({"items": found, "next": str(found[-1]["number"]) if len(found) == int(query["limit"]) else None})
        self.looks += 1
        etag = f'W/"{hash(str(view))}"'
        if step.headers.get("If-None-Match") == etag:
            self.unchanged += 1
            return Answer(304, {"etag": etag})
        return ok(view, etag=etag)


def watched(server: Server, *live: Any, took_s: float = 0.0, operation: Any = Client.watch, **more: Any) -> Trial:
    """Watches with these replies to whoever listens, and the server's to whoever asks."""
    given = iter(live)
    bench = FlowDriver(took_s=took_s)
    trial = bench.drive(
        operation,
        JOB_ID,
        replies=lambda step: next(given) if isinstance(step, Open | Read) else server.answer(step),
        **more,
    )
    assert list(given) == []
    return trial


def life(events: int = 3) -> Server:
    waits = [(job(position=2), 1), (job(position=1), 1), (job(position=1), 1)]
    return Server([*waits, (job("running"), 2), (job("completed", result=[1]), events)])


NO_STREAMS = [
    problem("OVERLOADED", 503, retryable=True),
    problem("NOT_ACCEPTABLE", 406),
    Answer(200, {"content-type": "text/html"}, b"<h1>a proxy</h1>"),
    Answer(502, {}),
]


@pytest.mark.parametrize("answer", NO_STREAMS, ids=lambda a: f"{a.status}")
def test_where_no_stream_can_be_had_the_same_is_asked_for(answer: Answer) -> None:
    trial = watched(life(), answer)
    assert numbers(trial) == [1, 2, 3]
    kinds = [type(item) for item in trial.emitted]
    assert kinds == [EventView, JobView, Wait, EventView, EventView, JobView]
    assert [trial.emitted[1].status, trial.emitted[-1].status] == ["queued", "completed"]


def test_a_stream_that_something_keeps_back_is_not_waited_for_twice() -> None:
    trial = watched(life(), LIVE, LOST)
    assert (len(trial.opened), numbers(trial)) == (1, [1, 2, 3])


def test_streams_that_break_again_and_again_are_given_up() -> None:
    broken = [LIVE, told(1), LOST, REFUSED, LIVE, told(2) + message("job", job("running")), CLOSED]
    trial = watched(life(), *broken)
    assert (len(trial.opened), numbers(trial)) == (3, [1, 2, 3])
    assert [item.status for item in trial.emitted if isinstance(item, JobView)] == ["running", "completed"]


def test_a_long_history_is_read_to_its_end() -> None:
    trial = watched(Server([(job("running"), 250), (job("failed", error="no"), 470)]), NO_STREAMS[0])
    assert numbers(trial) == list(range(1, 471))
    assert trial.emitted[-1].error == "no"


def test_whoever_asks_gets_what_is_new_and_asks_less_often_while_nothing_is() -> None:
    still = [(job(), 1)] * 200
    server = Server([*still, (job("completed"), 2)])
    trial = watched(server, NO_STREAMS[0])
    assert server.unchanged == 199
    assert trial.pauses[0] == 0.2
    assert max(trial.pauses) == 2.0
    assert trial.pauses == sorted(trial.pauses)
    assert len([step for step in trial.sent if step.path.endswith("/events")]) == 2


def test_what_a_running_handler_writes_down_is_told_though_the_job_looks_the_same() -> None:
    trial = watched(
        Server([(job("running"), 1), (job("running"), 1), (job("running"), 3), (job("completed"), 3)]), NO_STREAMS[0]
    )
    assert numbers(trial) == [1, 2, 3]
    assert [type(item) for item in trial.emitted][-3:] == [EventView, EventView, JobView]


@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "FORBIDDEN", "NOT_FOUND"])
def test_what_may_not_be_watched_may_not_be_asked_for(code: str) -> None:
    trial = FlowDriver().drive(Client.watch, JOB_ID, replies=[problem(code, 404)])
    assert isinstance(trial.error, Refused)
    assert trial.error.code == code


def test_what_is_no_id_names_no_job() -> None:
    for operation in (Client.watch, Client.wait, Client.job, Client.cancel):
        trial = FlowDriver().drive(operation, "../accounts", replies=[])
        assert isinstance(trial.error, NotFound)
        assert trial.steps == []


def test_waiting_gives_the_job_as_it_ended() -> None:
    trial = FlowDriver().drive(
        Client.wait, JOB_ID, replies=[LIVE, told(1) + message("job", job()), LOST, LIVE, told(2) + END]
    )
    assert (trial.result.status, trial.result.result) == ("completed", {"n": 1})
    assert trial.emitted == []
    assert watched(life(), NO_STREAMS[0], operation=Client.wait).result.result == [1]


def test_waiting_ends_in_time_to_the_moment() -> None:
    endless = Server([(job("running"), 1)])
    bench = FlowDriver()
    trial = bench.drive(Client.wait, JOB_ID, 10.0, replies=endless.answer)
    assert isinstance(trial.error, TimeoutError)
    assert str(trial.error) == f"job {JOB_ID} is still running; it goes on by itself"
    assert bench.now == pytest.approx(10.0)
    assert trial.opened == [], "a read that nobody can cut short is not begun"


def test_a_long_wait_listens_first_and_asks_in_its_last_seconds() -> None:
    def alive() -> Iterator[Any]:
        yield LIVE
        while True:
            yield b": keep-alive\n\n"

    live = alive()
    endless = Server([(job("running"), 1)])
    bench = FlowDriver(took_s=0.9)
    trial = bench.drive(
        Client.wait,
        JOB_ID,
        60.0,
        replies=lambda step: next(live) if isinstance(step, Open | Read) else endless.answer(step),
    )
    assert isinstance(trial.error, TimeoutError)
    assert len([step for step in trial.steps if isinstance(step, Read)]) > 40
    assert 60.0 <= bench.now < 63.0
    assert trial.opened[0].read_s == 25.0


def test_a_wait_for_no_time_at_all_looks_once() -> None:
    assert watched(Server([(job("completed"), 1)]), operation=Client.wait, timeout_s=0.0).result.status == "completed"
    late = watched(Server([(job(), 1)]), operation=Client.wait, timeout_s=0.0)
    assert isinstance(late.error, TimeoutError)


def test_submit_and_wait_is_one_request_for_a_short_job() -> None:
    done = {**receipt(), "status": "completed", "job": job("completed", result={"n": 2})}
    trial = FlowDriver().drive(Client.submit_and_wait, "draw", timeout_s=5.0, replies=[ok(done, 201)])
    assert trial.result.result == {"n": 2}
    (request,) = trial.sent
    assert (request.headers["Prefer"], request.read_s) == ("wait=5", 35.0)
    longer = FlowDriver().drive(
        Client.submit_and_wait, "draw", replies=[LOST, ok({**receipt(), "job": job("running")}), LIVE, told(1) + END]
    )
    assert longer.result.status == "completed"
    assert len({body["idempotency_key"] for body in longer.bodies()}) == 1


def test_a_stream_whose_credential_has_ended_is_not_opened_again() -> None:
    ended = {"code": "UNAUTHENTICATED", "detail": "the credential has expired; get a new one", "retryable": False}
    trial = FlowDriver().drive(Client.watch, JOB_ID, replies=[LIVE, told(1) + message("refused", ended)])
    assert isinstance(trial.error, Refused)
    assert (trial.error.code, str(trial.error)) == ("UNAUTHENTICATED", ended["detail"])
    assert (len(trial.opened), trial.sent) == (1, [])
