"""Live updates over HTTP: what happens to a job or an account as server-sent events, and waiting for a job's end.

A stream is a generator of bytes that knows nothing of HTTP; `EventStream` is the answer that carries it. Every event
has its number as its id, so that a client that was cut off goes on after the last one it saw. A message without an
id can be missed without harm: it says how things are, not what happened. The end has an id too, by which a browser
that comes back after it is known: browsers connect again after every stream, unless they are answered with 204.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from typing import Any, ClassVar, Final

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ..core.outcomes import Refusal
from ..core.states import FINAL
from ..engine.event_tail import Closed
from ..engine.views import EventView, JobView, Wait, event_view, owner_event_view, owner_job_view
from ..errors import Refused
from ..operations import AllOperations
from ..operations.following import happenings, next_to_end
from ..store.base import StoreError
from .guard import Call
from .hosting import ending_with_host
from .problems import problem
from .process_metrics import streams

KEEP_ALIVE_S = 15.0
"""How often an idle stream sends a comment, so that no proxy on the way treats it as dead."""
KEEP_ALIVE: Final = b": keep-alive\n\n"
END: Final = "-end"
"""Follows the last event's number in the id of the message `end`. A number alone would not do: a client that was cut
off between the last event and the end still has to hear the end."""
RECONNECT: Final = b"event: reconnect\nretry: 1000\ndata: {}\n\n"
"""The last message of a stream that the client can resume, at another process or a little later at this one."""
MISSED: Final = b"event: missed\ndata: {}\n\n"
"""Sent if more happened since the given event than is searched for an account's events: read its jobs instead."""


async def follow_job(
    app: AllOperations, job_id: str, after: int = 0, *, request: JobView | None = None, sees_all: bool = False
) -> AsyncGenerator[bytes, None]:
    """The job's events after a number, the job as it is then, and all that happens to it until it has ended. Without
    `sees_all`, as the job's owner may see them. request: the job, if it is a split request (see `happenings`)."""
    is_first, number = True, after
    try:
        # Closed with this stream; otherwise its follower would stay until garbage collection.
        with ending_with_host(app.engine.live):
            async with aclosing(happenings(app, job_id, after, KEEP_ALIVE_S, request)) as stream:
                async for told in stream:
                    match told:
                        case None:
                            yield KEEP_ALIVE
                        case list():
                            number = told[-1].number
                            yield _events(told, sees_all)
                        case Wait():
                            yield _message("position", told)
                        case JobView():
                            shown = told if sees_all else owner_job_view(told)
                            is_last = not is_first and told.status in FINAL
                            yield _message("end", shown, f"{number}{END}") if is_last else _message("job", shown)
                            is_first = False
    except (Closed, Refused, StoreError):
        yield RECONNECT


async def follow_account(
    app: AllOperations, account_id: str, after: int = 0, *, sees_all: bool = False
) -> AsyncGenerator[bytes, None]:
    """The events of all jobs of an account after a number, and then as they happen, without an end."""
    try:
        with ending_with_host(app.engine.live):
            async with app.engine.live.follow(account_id=account_id, after=after) as follower:
                await follower.start()
                found = await follower.next(0)
                if follower.has_missed:
                    yield MISSED
                while True:
                    yield _events(map(event_view, found), sees_all) if found else KEEP_ALIVE
                    found = await follower.next(KEEP_ALIVE_S)
    except (Closed, Refused, StoreError):
        yield RECONNECT


async def await_end(app: AllOperations, job_id: str, timeout_s: float) -> JobView | None:
    """The job once it has ended, or as it is when the time is up or the process shuts down.

    None if the database cannot be read now. It raises nothing, since the caller has just submitted the job and must
    not get an answer which says that nothing was changed.
    """
    ends_at = time.monotonic() + timeout_s
    waited_for = job_id
    try:
        while True:
            has_ended = False
            with suppress(Closed), ending_with_host(app.engine.live):
                has_ended = await app.engine.live.end_of(waited_for, ends_at - time.monotonic())
            job = await app.job(job_id)
            if not has_ended or job.status in FINAL:
                return job
            waited_for = next_to_end(job)
    except (Refused, StoreError):
        return None


class EventStream(Response):
    """A stream as an answer. It ends when its client goes away or takes nothing for a while (`answer_limits`), and when
    the credential that it was opened with expires or is revoked: then with the message `refused`."""

    media_type = "text/event-stream"
    running: ClassVar[int] = 0
    """How many streams run in this process."""

    def __init__(self, call: Call, stream: AsyncGenerator[bytes, None]) -> None:
        most = call.settings.streams
        if EventStream.running >= most:
            words = f"this process has {most} live streams already; nothing was changed. Try again, or ask for JSON."
            raise Refused.of(Refusal("OVERLOADED", words, retry_after_s=5.0))
        call.identity.check_unexpired(call.caller)
        call.usage.become_stream()
        self._call = call
        self._stream = stream
        self.status_code = 200
        self.background = None
        # No proxy on the way may cache the stream, or buffer it until there is more.
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        EventStream.running += 1
        streams.inc()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as stay:
                    leaving = asyncio.create_task(_leave(receive, stay), name="ficha stream")
                    try:
                        await self._send(send)
                    finally:
                        leaving.cancel()
        finally:
            EventStream.running -= 1
            streams.dec()
            await self._stream.aclose()

    async def _send(self, send: Send) -> None:
        start: Message = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        is_started = is_sending = False
        began_at = time.monotonic()
        try:
            async with self._call.while_valid():
                async for text in self._stream:
                    is_sending = True
                    # The answer starts once there is something to send. Until then the request keeps a turn of its
                    # account's, and the time of searching its history counts as spent, though mostly not spent on the
                    # event loop.
                    if not is_started:
                        self._call.usage.spent(time.monotonic() - began_at)
                        await send(start)
                    is_started = True
                    await send({"type": "http.response.body", "body": text, "more_body": True})
                    is_sending = False
        except Refused as refused:
            if is_sending:
                # A part of a message may have gone out; another one would be taken for the rest of it.
                return
            if not is_started:
                await send(start)
            is_started = True
            last = _message("refused", problem(refused.code, refused.message))
            await send({"type": "http.response.body", "body": last, "more_body": True})
        if not is_started:
            await send(start)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _leave(receive: Receive, stay: asyncio.Timeout) -> None:
    """Ends the stay when the client is gone, which is noticed here also while there is nothing to send."""
    while (await receive())["type"] != "http.disconnect":
        pass
    stay.reschedule(asyncio.get_running_loop().time())


def _events(found: Iterable[EventView], sees_all: bool) -> bytes:
    shown = found if sees_all else map(owner_event_view, found)
    return b"".join(_message(event.kind, event, event.number) for event in shown)


def _message(kind: str, data: Any, named: int | str | None = None) -> bytes:
    """One message, with an id if it has one. A line break within it would end a field; an empty line, the message."""
    assert kind.isidentifier(), f"{kind!r} cannot be the name of an event"
    lines = msgspec.json.encode(data).splitlines()
    head = f"event: {kind}\n" if named is None else f"id: {named}\nevent: {kind}\n"
    return b"".join((head.encode(), *(b"data: %b\n" % line for line in lines), b"\n"))
