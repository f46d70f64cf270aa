"""Follows a job: by the server's stream while one is available, else by polling. Both report the same."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec.structs import replace

from ..core.states import FINAL
from ..engine.views import EventView, Happening, JobView, Page, Wait
from ..errors import Refused
from ..outbound import Answer
from .effects import Emit, Flow, Open, Pause, Read, Ride, Send, Step
from .errors import Unreachable
from .problems import refusal_of, trouble_of
from .sending import RequestMethods, fields
from .sse import Message, Parser

T = TypeVar("T")

SILENT_S: Final = 25.0
"""A stream sends something every 15 s; one that is silent for this long is broken."""
SHORT_LIVED_S: Final = 5.0
BREAKS: Final = 3
"""After this many streams in a row that broke within `SHORT_LIVED_S`, the watch polls."""
UNCUT_S: Final = 16.0
"""A read of a stream cannot be cut short, so in the last seconds before a time limit the watch polls."""
SHORTEST_S: Final = 0.2
LONGEST_S: Final = 2.0
SHARE: Final = 0.05
"""The pause between polls is a twentieth of the time since the last change, so a job that changes often is polled
often."""
PAGE: Final = 100

_FOR_GOOD: Final = frozenset({"UNAUTHENTICATED", "FORBIDDEN", "NOT_FOUND"})
"""Refusals that polling would get too."""


Telling: TypeAlias = Generator[Step | Emit[Happening], Any, T]
Came = Literal["ended", "broken", "later", "nothing"]
"""How a stream ended: with the job's end; broken; the server asked to come back later; a stream is of no use here."""


class JobWatch:
    """One watch of a job: what was emitted already, and how the rest is found out."""

    def __init__(self, calls: RequestMethods, job_id: str, after: int, ends_at: float = float("inf")) -> None:
        self._calls = calls
        self._job_id = job_id
        self._path = f"/api/jobs/{job_id}"
        self._after = after
        self._ends_at = ends_at
        self._job: JobView | None = None
        self._place: object = None
        self._retry_s = 0.0

    def stream(self) -> Telling[None]:
        """Everything that happens: events, each once and in order; the job as it is after the history so far; and at
        last the job as it ended."""
        breaks = 0
        while breaks < BREAKS and self._left_s() > UNCUT_S:
            opened_at = self._calls.clock()
            try:
                came = yield from self._follow()
            except Unreachable:
                came = "broken"
            if came == "ended":
                return
            if came == "nothing":
                break
            if came == "broken":
                breaks = breaks + 1 if self._calls.clock() - opened_at < SHORT_LIVED_S else 1
            backoff = self._calls.retries.backoff(max(breaks, 1), self._calls.random())
            yield Pause(max(0.0, min(self._left_s(), self._retry_s + backoff)))
        yield from self._poll()

    def end(self) -> Flow[JobView]:
        """The job as it ended; `TimeoutError` if it has not in time."""
        ride = Ride(self.stream())
        last: Happening | None = None
        while ride.step is not None:
            if isinstance(ride.step, Emit):
                last = ride.step.value
                ride.answer(None)
                continue
            try:
                got = yield ride.step
            except Unreachable as error:
                ride.fail(error)
            else:
                ride.answer(got)
        assert isinstance(last, JobView)
        return last

    def _left_s(self) -> float:
        return self._ends_at - self._calls.clock()

    def _follow(self) -> Telling[Came]:
        """Reads one stream to its end."""
        answer: Answer = yield Open(
            Send(
                method="GET",
                path=f"{self._path}/events",
                headers={
                    "Accept": "text/event-stream",
                    "Accept-Encoding": "identity",  # Nobody may hold bytes back to compress them.
                    "Last-Event-ID": str(self._after),
                },
                read_s=min(SILENT_S, self._left_s()),
                harmless=True,
            )
        )
        if answer.status != 200 or not answer.headers.get("content-type", "").startswith("text/event-stream"):
            trouble = trouble_of(answer, self._calls.url)
            if isinstance(trouble, Refused) and trouble.code in _FOR_GOOD:
                raise trouble
            return "nothing"
        parser = Parser()
        heard = False
        self._retry_s = 0.0
        while True:
            try:
                part: bytes = yield Read()
            except Unreachable:
                part = b""
            if not part:
                # Silent from the start: something on the way buffers the stream, and would do so the next time.
                return "later" if self._retry_s else "broken" if heard else "nothing"
            heard = True
            for message in parser.feed(part):
                yield from self._take(message)
                if message.kind == "end":
                    return "ended"
            if self._left_s() <= UNCUT_S:
                return "nothing"

    def _take(self, message: Message) -> Telling[None]:
        self._retry_s = (message.retry_ms or 0) / 1_000
        match message.kind:
            case "position":
                yield from self._tell_place(self._calls.read(message.data, Wait))
            case "job":
                job = self._calls.read(message.data, JobView)
                if job.status not in FINAL:  # Otherwise its end comes next.
                    yield from self._tell_job(job)
            case "refused":
                # The credential has ended, so connecting again with it would fail.
                raise refusal_of(self._calls.read(message.data, dict[str, Any]))
            case "end":
                yield Emit(self._calls.read(message.data, JobView))
            case _ if message.id:
                yield from self._tell_event(self._calls.read(message.data, EventView))
            case _:
                pass  # A hint, or a message that only a later release sends.

    def _poll(self) -> Telling[None]:
        etag: str | None = None
        job: JobView | None = None
        changed_at = self._calls.clock()
        while True:
            etag, found = yield from self._look(etag)
            if found is not None:
                job, changed_at = found, self._calls.clock()
            assert job is not None
            if job.parts is None and (found is not None or job.status != "queued"):
                # Also if the job is unchanged: a handler's log line is an event, but changes nothing of the job.
                yield from self._history()
            if job.status in FINAL:
                yield Emit(job)
                return
            yield from self._tell_job(job)
            left_s = self._left_s()
            if left_s <= 0:
                raise TimeoutError(f"job {self._job_id} is still {job.status}; it goes on by itself")
            yield Pause(min(left_s, LONGEST_S, max(SHORTEST_S, SHARE * (self._calls.clock() - changed_at))))

    def _look(self, etag: str | None = None) -> Telling[tuple[str | None, JobView | None]]:
        """The ETag and the job; None in place of the job if it has not changed."""
        headers = {} if etag is None else {"If-None-Match": etag}
        request = Send(method="GET", path=self._path, headers=headers, harmless=True)
        answer = yield from self._calls.ask(request, until=self._ends_at)
        if answer.status == 304:
            return etag, None
        return answer.headers.get("etag"), self._calls.read(answer.body, JobView)

    def _history(self) -> Telling[None]:
        """The events after those already emitted, page by page."""
        while True:
            request = Send(
                method="GET",
                path=f"{self._path}/events",
                query=fields({"after": self._after, "limit": PAGE}),
                headers={"Accept": "application/json"},
                harmless=True,
            )
            answer = yield from self._calls.ask(request, until=self._ends_at)
            page = self._calls.read(answer.body, Page[EventView])
            for event in page.items:
                yield from self._tell_event(event)
            if page.next is None:
                return

    def _tell_event(self, event: EventView) -> Telling[None]:
        if event.number > self._after:
            self._after = event.number
            yield Emit(event)

    def _tell_place(self, place: Wait) -> Telling[None]:
        # An estimate changes all the time and says little new, once there is one.
        news = (place.position, place.waiting_for, place.estimated_wait_s is None)
        if news != self._place:
            self._place = news
            yield Emit(place)

    def _tell_job(self, job: JobView) -> Telling[None]:
        """Emits the job once; later only how it waits, as events report all else. A split request has no events, so it
        is emitted whenever something of it changed."""
        if self._job is None or (job.parts is not None and _news(job) != _news(self._job)):
            self._job = job
            self._place = (job.position, job.waiting_for, job.estimated_wait_s is None)
            yield Emit(job)
        elif job.status == "queued" and job.parts is None:
            place = Wait(job.position, job.estimated_wait_s, job.waiting_for)
            yield from self._tell_place(place)


def _news(request: JobView) -> JobView:
    """The request without what changes all the time."""
    return replace(request, waited_in_queue=0.0, estimated_wait_s=None)
