"""The base of every operation: sends a request, retries it where that helps and does no harm, and reads its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from itertools import count
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from .. import validation as arg
from ..engine.views import JobText
from ..errors import Refused
from ..outbound import Answer
from ..requests import BatchRequest, Body, SubmitRequest
from .effects import Flow, Pause, Send
from .errors import BadAnswer, ServerError, Unreachable
from .problems import trouble_of
from .retries import Retries, pause_s

T = TypeVar("T")
Submitting = TypeVar("Submitting", bound=SubmitRequest | BatchRequest)

_JSON: Final = {"Content-Type": "application/json"}
_ANY_SIZE: Final = arg.Limits(payload_bytes=2**31)
"""The server, not the client, limits the size of a payload."""


class RequestMethods:
    """Sends and reads, as flows."""

    url: str
    retries: Retries
    clock: Callable[[], float]
    random: Callable[[], float]

    def ask(self, request: Send, *, until: float = float("inf")) -> Flow[Answer]:
        """The answer to a request, if it is a success. Retries until the time is up: the client's own limit, or `until`
        if that is earlier."""
        give_up_at = min(until, self.clock() + self.retries.give_up_s)
        for tried in count(1):
            trouble: Refused | ServerError
            try:
                answer: Answer = yield request
            except Unreachable as error:
                trouble = error
            else:
                if answer.status < 300 or answer.status == 304:
                    return answer
                trouble = trouble_of(answer, self.url)
            pause = pause_s(
                self.retries,
                trouble,
                harmless=request.harmless,
                tried=tried,
                left_s=give_up_at - self.clock(),
                drawn=self.random(),
            )
            if pause is None:
                raise _told(trouble, request)
            yield Pause(pause)
        raise AssertionError  # Counting never ends.

    def get(self, path: str, kind: type[T], headers: Mapping[str, str] | None = None, **query: Any) -> Flow[T]:
        """Reads something; fields of the query that are None are left out."""
        request = Send(method="GET", path=path, query=fields(query), headers=headers or {}, harmless=True)
        return self.decoded(request, kind)

    def post(
        self,
        path: str,
        kind: type[T],
        body: Mapping[str, Any] | None = None,
        *,
        harmless: bool = False,
        query: Mapping[str, Any] | None = None,
    ) -> Flow[T]:
        """Does something; fields of the body or the query that are None are left out."""
        request = posted(path, body or {}, harmless=harmless)
        return self.decoded(replace(request, query=fields(query)) if query else request, kind)

    def decoded(self, request: Send, kind: type[T]) -> Flow[T]:
        answer = yield from self.ask(request)
        return self.read(answer.body, kind)

    def read(self, text: bytes | str, kind: type[T]) -> T:
        """Decodes an answer, or a part of one, as a view."""
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError as error:
            raise self._bad(error) from None

    def _bad(self, error: Exception) -> BadAnswer:
        words = "is it a Ficha server, and of the same release?"
        return BadAnswer(f"{self.url} answered what is not understood here ({error}); {words}")


def _told(trouble: Refused | ServerError, request: Send) -> Refused | ServerError:
    """The error that the caller gets. If it is unknown whether the request was carried out, the error says so."""
    if isinstance(trouble, Unreachable) and trouble.reached and not request.harmless:
        words = "it may have been carried out, so look before you repeat it"
        return Unreachable(f"{trouble}; {words}", reached=True, retry_after_s=trouble.retry_after_s)
    return trouble


def posted(
    path: str, body: Body | Mapping[str, Any], *, harmless: bool, headers: Mapping[str, str] | None = None
) -> Send:
    """A request to do something; fields of the body that are None are left out."""
    given = body if isinstance(body, Body) else {name: value for name, value in body.items() if value is not None}
    text = msgspec.json.encode(given)
    return Send(method="POST", path=path, body=text, headers=_JSON | dict(headers or {}), harmless=harmless)


def fields(query: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The fields of a query: nothing for None, several of one name for a list."""
    return tuple(
        (name, str(value))
        for name, given in query.items()
        for value in (given if isinstance(given, list | tuple) else [given])
        if value is not None
    )


def joined(include: Iterable[JobText]) -> str | None:
    """The texts that a list is to include, as its parameter."""
    return ",".join(arg.job_texts(include)) or None


def checked(request: Submitting) -> Submitting:
    """A submit, checked as the server will check it: no value is converted to fit into JSON, and a date without a
    zone is treated as UTC."""
    if isinstance(request, SubmitRequest):
        request = replace(request, payload=_payload(request.payload))
    else:
        request = replace(request, items=[replace(item, payload=_payload(item.payload)) for item in request.items])
    arg.date(request.run_at, "run_at")
    if request.run_at is None or request.run_at.tzinfo is not None:
        return request
    return replace(request, run_at=request.run_at.replace(tzinfo=UTC))


def _payload(given: Any) -> Mapping[str, Any]:
    payload = arg.payload(given)
    arg.json(payload, "the payload", _ANY_SIZE.payload_bytes, _ANY_SIZE)
    return payload


def segment(name: str) -> str:
    """A name as a part of a path, whatever is in it."""
    return {".": "%2E", "..": "%2E%2E"}.get(name) or quote(name, safe="")
