"""What a provider is: a class of five small methods over HTTP, and the values that they take and return.

A provider knows one API: how to start work there, ask for its state, fetch its result, cancel it, and verify a
call-back. It knows no jobs and no credits, makes no retries and keeps nothing between calls. Whatever it returns is
data; the worker decides what becomes of the job.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from ..trace_context import current, headers_of
from .json_paths import read_value

RATE: Final = re.compile(r"([1-9][0-9]{0,8})/(s|m|h)")
PERIODS_S: Final = {"s": 1, "m": 60, "h": 3_600}
NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
ANSWER_BYTES: Final = 8_388_608
"""The largest answer that is read from a provider."""
WORDS_LENGTH: Final = 2_000
"""How many characters of a provider's own error text are kept."""
OPERATORS_STATUSES: Final = frozenset({401, 402, 403, 407})
"""Statuses that refuse the operator, not the user: a wrong key, no credits there. Their message is not for the user."""
STACK_MARKS: Final = ("Traceback (most recent call last)", '\n  File "', "\n    at ")
"""What the stack traces of Python, Java and JavaScript contain."""
AGAIN_STATUSES: Final = frozenset({408, 409, 423, 425})
"""Statuses after which the same request may work a moment later."""
BUSY_S: Final = 5.0
"""The pause after the provider refused a request as one too many, if its answer names none."""
LATE_S: Final = 0.25
"""How long what comes before the first request may take of its turn."""
LONGEST_PAUSE_S: Final = 3_600.0
"""The longest pause that a provider may ask for."""


class ProviderCall(Struct, frozen=True):
    """What a provider tool's function returns: which model or workflow to call, and with what.

    target: the provider's name for it, such as `owner/model` or a workflow's id.
    input: what it gets, as the provider's documentation describes it.
    options: further fields of the request, such as the kind of machine; each provider says which it knows.
    """

    target: str
    input: dict[str, Any]
    options: dict[str, Any] = {}


class RemoteFile(Struct, frozen=True):
    """A file that the provider made, at the provider's own address, which will soon be gone."""

    url: str
    name: str | None = None
    media_type: str | None = None


class ProviderResult(Struct, frozen=True):
    """What the provider made.

    output: JSON. files: to be copied into the file storage. cost: what the provider charges for it, in the operator's
    currency; None if it does not say.
    """

    output: Any
    files: tuple[RemoteFile, ...] = ()
    cost: float | None = None


class ProviderWorking(Struct, frozen=True, tag="working"):
    """The work is not done. progress: percent. position: how many requests are before it in the provider's queue."""

    progress: int | None = None
    position: int | None = None


class ProviderSucceeded(Struct, frozen=True, tag="succeeded"):
    """The work is done. result: None if it must be fetched (`Provider.result`)."""

    result: ProviderResult | None = None


class ProviderFailed(Struct, frozen=True, tag="failed"):
    """The work failed. error: the provider's own message, which the job's owner sees, unless it is no plain text.
    final: a retry cannot help. cost: what the provider charges all the same. for_user: False if only operators may read
    the message. details: more that only operators read."""

    error: str
    final: bool = True
    cost: float | None = None
    for_user: bool = True
    details: str | None = None


ProviderStatus = ProviderWorking | ProviderSucceeded | ProviderFailed


class ReceivedCallback(Struct, frozen=True):
    """A call-back as received. Names of headers are in lower case; `received_at` is UNIX time in seconds."""

    headers: Mapping[str, str]
    body: bytes
    received_at: float


class BadCallback(Exception):
    """A call-back that is not to be believed: no signature, a wrong one, or one that is too old."""


class ProviderError(Exception):
    """A request to a provider did not work.

    final: a retry cannot help. was_sent: whether the provider may have received the request; False only if it certainly
    did not. retry_after_s: when to try again, if the provider said so. is_fault: whether it counts as a failure of the
    provider, which opens its breaker. for_user: the message is the provider's own, about the user's request.
    details: more that only operators read. answer: the provider's answer, if there was one.
    """

    def __init__(
        self,
        message: str,
        *,
        final: bool = False,
        was_sent: bool = True,
        retry_after_s: float | None = None,
        is_fault: bool = True,
        for_user: bool = False,
        details: str | None = None,
        answer: HttpAnswer | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.final = final
        self.was_sent = was_sent
        self.retry_after_s = retry_after_s
        self.is_fault = is_fault
        self.for_user = for_user
        self.details = details
        self.answer = answer


class ProviderBusy(ProviderError):
    """The request was not served because there were too many, or because the breaker is open: nothing was done, and the
    same request should be made again after `retry_after_s`. This does not count as a failure."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message, was_sent=False, retry_after_s=retry_after_s, is_fault=False)
        self.retry_after_s: float = retry_after_s


class Breaker(Struct, frozen=True):
    """When a provider counts as down: after `failures` failures in a row, at first for `open_s`; then a probe goes
    out."""

    failures: int = 5
    open_s: float = 30.0


class HttpAnswer(Protocol):
    """What a provider answered."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...


class HttpSender(Protocol):
    """The client that sends requests; `ficha.outbound.Outbound` is one."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = ...,
        json: Any = ...,
        content: bytes | None = ...,
        timeout_s: float = ...,
        most_bytes: int = ...,
        guarded: bool = ...,
    ) -> HttpAnswer: ...


class RequestTurn(Protocol):
    """Permission to make one request to a provider. Set `is_fault` if the provider failed, or to None if no request
    was sent."""

    is_fault: bool | None


class FreeTurn:
    """The turn of a provider without limits."""

    is_fault: bool | None = False


TakeTurn = Callable[[], AbstractAsyncContextManager[RequestTurn]]
"""Waits for a turn; raises ProviderBusy if there is none soon, or if the provider counts as down."""


def free_turn() -> AbstractAsyncContextManager[RequestTurn]:
    return nullcontext(FreeTurn())


class ProviderHttp:
    """HTTP as a provider's methods use it: every request takes a turn of the provider's limits, has its time-out, and
    ends in an answer with a status of 200 to 299 or in a `ProviderError` with the provider's own words.

    sender: the shared HTTP client. errors: exceptions of the sender, each with `was_sent`. trace: the trace context of
    its run; OpenTelemetry's current span takes precedence. before: awaited once, in the turn of the first request and
    before that is sent.
    """

    def __init__(
        self,
        sender: HttpSender,
        *,
        timeout_s: float = 30.0,
        turn: TakeTurn = free_turn,
        errors: tuple[type[Exception], ...] = (OSError, TimeoutError),
        correlation_id: str | None = None,
        trace: str | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._sender = sender
        self._timeout_s = timeout_s
        self._turn = turn
        self._errors = errors
        self._correlation_id = correlation_id
        self._trace = trace
        self._before = before

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float | None = None,
        most_bytes: int = ANSWER_BYTES,
        guarded: bool = False,
    ) -> HttpAnswer:
        """Makes one request. guarded: only to public addresses, for a URL that the operator did not configure.

        The job's correlation id goes with it as `X-Correlation-ID`, and its trace as `traceparent`.
        """
        answer: HttpAnswer = await self._exchange(method, url, headers, json, content, timeout_s, most_bytes, guarded)
        return answer

    async def json(self, method: str, url: str, **options: Any) -> Any:
        """The same, and the answer's body as JSON. Anything else, such as an HTML page, is an error of the provider."""
        return await self._exchange(method, url, read=read_json, **options)

    async def _exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float | None = None,
        most_bytes: int = ANSWER_BYTES,
        guarded: bool = False,
        read: Callable[[HttpAnswer], Any] = lambda answer: answer,
    ) -> Any:
        """Reads the answer within the turn, so that an unreadable answer counts as a failure of the provider."""
        sent = {"accept": "application/json", **{name.lower(): value for name, value in (headers or {}).items()}}
        if self._correlation_id is not None:
            sent.setdefault("x-correlation-id", self._correlation_id)
        if (trace := current() or self._trace) is not None:
            sent = {**headers_of(trace), **sent}
        body: dict[str, Any] = {} if json is None else {"json": json}
        if content is not None:
            body["content"] = content
        while True:
            async with self._turn() as turn:
                if not await self._is_ready(turn):
                    continue
                try:
                    answer = await self._sender.request(
                        method,
                        url,
                        headers=sent,
                        timeout_s=self._timeout_s if timeout_s is None else timeout_s,
                        most_bytes=most_bytes,
                        guarded=guarded,
                        **body,
                    )
                    check(answer)
                    return read(answer)
                except ProviderError as error:
                    turn.is_fault = error.is_fault
                    raise
                except self._errors as error:
                    turn.is_fault = True
                    words = str(error) or type(error).__name__
                    raise ProviderError(words, was_sent=bool(getattr(error, "was_sent", True))) from error

    async def _is_ready(self, turn: RequestTurn) -> bool:
        """Does what comes before the first request. If that takes so long that the turn's time is over, another turn
        is needed. It comes no earlier, because the wait for a turn may be long and is no request."""
        if self._before is None:
            return True
        began, turn.is_fault = time.monotonic(), None
        await self._before()
        self._before = None
        if time.monotonic() - began > LATE_S:
            return False
        turn.is_fault = False
        return True


def check(answer: HttpAnswer) -> None:
    """Raises the `ProviderError` of an answer that is not a success."""
    status = answer.status
    if 200 <= status < 300:
        return
    said = words_of(answer.body)
    if status == 429:
        pause_s = _pause_s(answer)
        raise ProviderBusy(said or "the provider takes no more requests now", BUSY_S if pause_s is None else pause_s)
    if status in AGAIN_STATUSES or status >= 500:
        words = f"the provider answered {status}" + (f": {said}" if said else "")
        raise ProviderError(words, retry_after_s=_pause_s(answer), is_fault=status >= 500, answer=answer)
    if status >= 400:
        for_user = bool(said) and status not in OPERATORS_STATUSES
        words = said if for_user else f"the provider answered {status}" + (f": {said}" if said else "")
        raise ProviderError(words, final=True, is_fault=False, for_user=for_user, answer=answer)
    raise ProviderError(f"the provider answered {status}, a redirect, which is not followed")


def read_json(answer: HttpAnswer) -> Any:
    """An answer's body as JSON."""
    try:
        return read_value(answer.body)
    except ValueError:
        start = answer.body[:80].decode("utf-8", "replace")
        raise ProviderError(f"the provider's answer is not JSON: {start!r}") from None


def words_of(body: bytes) -> str:
    """A provider's own error message, from the fields that usually hold it; empty if there is none."""
    try:
        value = read_value(body)
    except ValueError:
        return ""
    return _words(value, 0)[:WORDS_LENGTH].strip()


def _words(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return value
    if depth > 4:
        return ""
    if isinstance(value, list):
        return "; ".join(found for item in value[:5] if (found := _words(item, depth + 1)))
    if isinstance(value, dict):
        for name in ("detail", "error", "message", "msg", "errors", "title"):
            if found := _words(value.get(name), depth + 1):
                return found
    return ""


def is_plain(words: str) -> bool:
    """Whether a provider's message can be for people: no trace of a program's stack, and no JSON."""
    if any(mark in words for mark in STACK_MARKS):
        return False
    try:
        return not isinstance(msgspec.json.decode(words.strip()), dict | list)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return True


def _pause_s(answer: HttpAnswer) -> float | None:
    """The answer's Retry-After in seconds: a number, or a date."""
    given = next((value for name, value in answer.headers.items() if name.lower() == "retry-after"), None)
    if given is None:
        return None
    try:
        pause_s = float(given)
    except ValueError:
        try:
            pause_s = (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(pause_s, 0.0), LONGEST_PAUSE_S) if math.isfinite(pause_s) else None


class Provider:
    """One external provider. Subclass it, and give the object to `Ficha.provider_tool`.

    name: its name in addresses of call-backs, in logs and in limits: lower-case letters, digits, - and _.
    rate: requests per second, minute or hour, as in "60/m", over all processes. Defaults to no limit.
    at_once: requests at a time, over all processes. Defaults to no limit.
    timeout_s: for one request. Defaults to 30.
    poll_s: how long after the start, or after the last answer, the provider is asked for the state of a job, if no
        call-back came; the pauses grow as the job takes longer. Defaults to 30.
    breaker: when the provider counts as down. Defaults to five failures in a row, for 30 seconds.

    takes_keys: whether the provider starts the work only once for the same `key`. finds_work: whether `find` can tell
    what became of a start whose answer was lost. signs_callbacks: whether `verify` proves who sent a call-back, so that
    its status may move credits without a poll.

    Every method may raise `ProviderError`; `http` raises it by itself.
    """

    takes_keys: bool = False
    finds_work: bool = False
    signs_callbacks: bool = False

    def __init__(
        self,
        name: str,
        *,
        rate: str | None = None,
        at_once: int | None = None,
        timeout_s: float = 30.0,
        poll_s: float = 30.0,
        breaker: Breaker | None = None,
    ) -> None:
        terms = Breaker() if breaker is None else breaker
        for problem in _problems(name, rate, at_once, terms, timeout_s=timeout_s, poll_s=poll_s):
            raise ValueError(f"provider {name!r}: {problem}")
        self.name = name
        self.rate = rate
        self.at_once = at_once
        self.timeout_s = timeout_s
        self.poll_s = poll_s
        self.breaker = terms

    @property
    def interval_s(self) -> float:
        """The time between two requests at the highest rate; 0 for no limit."""
        if self.rate is None or (found := RATE.fullmatch(self.rate)) is None:
            return 0.0
        return PERIODS_S[found[2]] / int(found[1])

    async def start(
        self,
        http: ProviderHttp,
        call: ProviderCall,
        *,
        callback_url: str | None,
        key: str,
        correlation_id: str | None,
    ) -> str:
        """Starts the work, and returns the provider's reference to it.

        callback_url: where the provider should call back; None if it cannot reach this server. key: names this run of
        the job: if the provider takes keys (`takes_keys`), the same key starts the work once. correlation_id: for the
        provider's own logs, if it has a field for it; the header is sent anyway.
        """
        raise NotImplementedError

    async def find(self, http: ProviderHttp, *, key: str, target: str) -> str | None:
        """The reference of the work that a start under this key began; None if it certainly began none. Called if
        `finds_work`, before a start whose earlier try may have been received. target: that of the call."""
        raise NotImplementedError

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        """The state of the work."""
        raise NotImplementedError

    async def result(self, http: ProviderHttp, ref: str) -> ProviderResult | ProviderFailed:
        """The result of the work; `ProviderFailed` if there is none that could be delivered. Called once the work has
        succeeded, if neither `status` nor a call-back had it."""
        raise NotImplementedError

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        """Asks the provider to stop. Work that has ended already is no error."""
        raise NotImplementedError

    async def verify(self, http: ProviderHttp, callback: ReceivedCallback) -> ProviderStatus | None:
        """The status in a call-back; raises `BadCallback` if it is not the provider's or is too old.

        None: the status must be asked for (`status`), for example because the provider signs nothing.
        """
        return None

    def refs(self, callback: ReceivedCallback) -> str | None:
        """The reference that a call-back names, or its part after the last `/`; None if it names none. Must not
        raise."""
        return None

    def full_ref(self, name: str, target: str) -> str:
        """The reference to work of which only a call-back is known: `name` is what `refs` returned, `target` that of
        the call."""
        return name


def _problems(name: Any, rate: Any, at_once: Any, breaker: Any, **seconds: Any) -> Iterator[str]:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        yield "its name must be 1 to 63 of the characters a-z 0-9 _ -, and begin with a letter or digit"
    if rate is not None and (not isinstance(rate, str) or RATE.fullmatch(rate) is None):
        yield f'rate must be a number per s, m or h, such as "60/m", not {rate!r}'
    if at_once is not None and (isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1):
        yield f"at_once must be a whole number from 1 up or None, not {at_once!r}"
    if not isinstance(breaker, Breaker) or isinstance(breaker.failures, bool) or not breaker.failures >= 1:
        yield f"breaker must be Breaker(failures=…, open_s=…) with at least one failure, not {breaker!r}"
        return
    for option, value in (*seconds.items(), ("breaker.open_s", breaker.open_s)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= 86_400:
            yield f"{option} must be a number of seconds from 0.001 to 86400, not {value!r}"
