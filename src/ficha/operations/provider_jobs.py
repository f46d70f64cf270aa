"""Jobs that an external provider works on: its call-backs, and polls of the provider."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import tracing
from .. import validation as arg
from ..core import commands as c
from ..core.outcomes import CallbackNoted, Finished, Held, PollEnded, PollHeld, Refusal
from ..core.polls import is_named
from ..core.records import Awaiting, Event, Job
from ..engine.views import Lease
from ..engine.wakeups import POLLS
from ..errors import Overloaded, ProviderDown, RateLimited, Refused
from ..job_log import about, fields_of
from ..providers import (
    BadCallback,
    Provider,
    ProviderBusy,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderResult,
    ProviderStatus,
    ProviderSucceeded,
    ProviderWorking,
    ReceivedCallback,
    RemoteFile,
)
from ..providers.base import BUSY_S, WORDS_LENGTH, RequestTurn
from ..redaction import redacted
from ..storable import clean_json, clean_text
from ..store.base import DuePoll, GetJobs, ListJobEvents, ListPolls, StoreError
from ..trace_context import of_request, run_context
from .files import FileOperations
from .hooks import HookOperations
from .turns import TurnOperations

if TYPE_CHECKING:
    from ..signing import Signer

log = logging.getLogger("ficha.providers")

KEPT_HEADERS: Final = frozenset({"content-type", "user-agent", "webhook-id", "webhook-timestamp", "x-correlation-id"})
"""The headers of a call-back that are stored, besides those that begin with one of `KEPT_PREFIXES`."""
KEPT_PREFIXES: Final = ("x-fal-webhook-request", "x-fal-webhook-timestamp", "x-request-id")
HEADER_LENGTH: Final = 200
TOKEN_LENGTH: Final = 200
REF_LENGTH: Final = 255
DIVIDED_BYTES: Final = 500
"""More than the longest beginning of a secret that is not recognised without its end (`redaction.py`)."""


class OpenStart(Struct, frozen=True):
    """A start that a provider may have received. requested_at: when its request went out, at the earliest. named: how a
    call-back names the work that it began, if one came."""

    provider: str
    target: str
    requested_at: int
    named: str | None


class ProviderOperations(HookOperations, TurnOperations, FileOperations):
    providers: Mapping[str, Provider] = {}
    signer: Signer | None = None
    public_url: str | None = None

    def provider_http(
        self,
        provider: Provider,
        correlation_id: str | None = None,
        trace: str | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> ProviderHttp:
        """HTTP as the provider's methods use it, within the provider's limits. before: awaited once, before the first
        request."""
        raise NotImplementedError

    @asynccontextmanager
    async def provider_turn(self, provider: Provider) -> AsyncIterator[RequestTurn]:
        """Waits for permission to make one request, within the provider's limits; raises ProviderBusy if there is none
        soon."""
        try:
            async with self.turn(provider) as turn:
                try:
                    yield turn
                except ProviderError as error:
                    turn.error = redacted(error.message)
                    raise
        except (Overloaded, ProviderDown, RateLimited) as refused:
            raise ProviderBusy(str(refused), refused.retry_after_s or BUSY_S) from refused
        except StoreError as error:
            raise ProviderBusy(f"the database cannot be used now: {error}", BUSY_S) from error

    def callback_url(self, provider: str, job_id: str, attempt: int) -> str | None:
        """Where the provider calls back about this run of the job; None if it cannot reach this server.

        The address is derived from the job, not stored, so a call-back that arrives before the provider's answer finds
        its job.
        """
        if self.signer is None or self.public_url is None:
            return None
        signature = self.signer.sign("callback", provider, job_id, str(attempt))
        return f"{self.public_url.rstrip('/')}/api/webhooks/{provider}/{job_id}.{attempt}.{signature}"

    async def receive_callback(
        self, provider: str, token: str, headers: Mapping[str, str], body: bytes, received_at: float | None = None
    ) -> c.Verdict:
        """Accepts a provider's call-back: stores it with its job, and has the provider polled or the call-back's status
        used.

        Refuses it as NOT_FOUND if the address is not one of Ficha's, and as UNAUTHENTICATED if the call-back is not the
        provider's; a forged one is stored too. Accepts any other: a repeat, a late one or one about another run changes
        nothing.
        """
        found, job_id, attempt = self.check_callback(provider, token)
        began_ns, began = time.time_ns(), time.monotonic()
        with about(lambda: fields_of(job_id, attempt=attempt + 1, duration_s=time.monotonic() - began)):
            noted, verdict = await self._note_callback(found, job_id, attempt, headers, body, received_at)
        spec = noted.spec
        log.info(
            "a provider called back",
            extra={
                **fields_of(
                    job_id,
                    spec,
                    attempt=attempt + 1,
                    epoch=noted.epoch,
                    status=noted.status,
                    duration_s=time.monotonic() - began,
                ),
                "provider": provider,
                "verdict": verdict,
                "asks": noted.asks,
                "bytes": len(body),
            },
        )
        if tracing.active is not None:
            tracing.active.add(
                f"call-back {provider}",
                run_context(job_id, spec.trace_context, noted.epoch),
                began_ns,
                role="SERVER",
                attributes={
                    **tracing.attributes_of(job_id, spec, attempt + 1, noted.epoch),
                    "ficha.provider": provider,
                    "ficha.verdict": verdict,
                },
                link=of_request.get(),
            )
        if verdict == "forged":
            raise Refused.of(_forged())
        return verdict

    async def _note_callback(
        self,
        found: Provider,
        job_id: str,
        attempt: int,
        headers: Mapping[str, str],
        body: bytes,
        received_at: float | None,
    ) -> tuple[CallbackNoted, c.Verdict]:
        at = time.time() if received_at is None else received_at
        callback = ReceivedCallback({name.lower(): text for name, text in headers.items()}, body, at)
        verdict, status = await self._verified(found, callback, job_id)
        told = None if status is None else _told(status, self.limits.callback_bytes)
        noted = await self._ask(
            c.NoteCallback(
                job_id,
                attempt,
                verdict,
                _ref_of(found, callback),
                _kept_headers(callback.headers),
                kept_body(body, self.limits.callback_bytes),
                told,
                ends=isinstance(status, ProviderSucceeded | ProviderFailed),
            ),
            CallbackNoted,
        )
        return noted, verdict

    def check_callback(self, provider: str, token: str) -> tuple[Provider, str, int]:
        """The provider, the job and the run of a call-back address. Any other address is refused as NOT_FOUND, in the
        same words whatever is wrong with it."""
        found = self.providers.get(provider)
        parts = token.split(".", 2)
        if found is None or self.signer is None or len(token) > TOKEN_LENGTH or len(parts) != 3:
            raise Refused.of(_no_address())
        job_id, attempt, signature = parts
        is_number = attempt.isdecimal() and attempt.isascii() and len(attempt) <= 9
        if not is_number or not self.signer.is_signed(signature, "callback", provider, job_id, attempt):
            raise Refused.of(_no_address())
        return found, job_id, int(attempt)

    async def _verified(
        self, provider: Provider, callback: ReceivedCallback, job_id: str
    ) -> tuple[c.Verdict, ProviderStatus | None]:
        try:
            status = await provider.verify(self.provider_http(provider), callback)
        except BadCallback as error:
            log.warning("a call-back of %s for job %s is not believed: %s", provider.name, job_id, error)
            return "forged", None
        except ProviderError as error:
            # The provider's keys are unavailable now. The address has the job's token: reason enough to poll the
            # provider, but not to believe the call-back.
            log.warning("a call-back of %s for job %s could not be checked: %s", provider.name, job_id, error)
            return "unread", None
        except Exception:
            log.exception("a call-back of %s for job %s could not be read", provider.name, job_id)
            return "unread", None
        if not provider.signs_callbacks or status is None:
            return "unsigned", None
        return "verified", clean_status(status)

    async def note_start(self, lease: Lease, provider: str, target: str) -> None:
        """Writes, before the request goes out, that the provider may have received this run's start."""
        await self._ask(c.NoteStart(lease.job_id, lease.epoch, provider, arg.text(target)[:REF_LENGTH]), Held)

    async def open_start(self, job: Job) -> OpenStart | None:
        """The last start of this attempt, if a provider may have received it and nobody knows its answer: the run that
        made it was lost, or waits for the provider to be asked."""
        asked = await self._events_of(job, "requested")
        if not asked:
            return None
        retried = await self.engine.store.read(ListJobEvents(job.id, "retried"))
        if any(event.number > asked[-1].number and (event.data or {}).get("unsent") for event in retried):
            return None
        named = [
            about
            for event in await self._events_of(job, "callback")
            if (event.data or {})["verdict"] in ("verified", "unsigned")
            and (about := (event.data or {}).get("about")) is not None
        ]
        told = asked[-1].data or {}
        return OpenStart(told["provider"], told["target"], asked[-1].at, named[0] if named else None)

    async def _events_of(self, job: Job, kind: str) -> list[Event]:
        """The job's events of one kind that are about this attempt."""
        events = await self.engine.store.read(ListJobEvents(job.id, kind))
        return [event for event in events if (event.data or {})["attempt"] == job.attempts]

    async def kept_word(self, job: Job) -> ProviderStatus | None:
        """The end of this run as the provider's first verified call-back about it reported it; None if none did."""
        if not job.callbacks or not isinstance(job.place, Awaiting):
            return None
        for event in await self._events_of(job, "callback"):
            kept = event.data or {}
            if kept["verdict"] == "verified" and is_named(job.place, kept.get("about")) and "told" in kept:
                status: ProviderStatus = msgspec.json.decode(kept["told"], type=ProviderStatus)
                if not isinstance(status, ProviderWorking):
                    return status
        return None

    async def payload_of(self, job_id: str) -> str:
        """The payload of a job, as JSON text."""
        [row] = await self.engine.store.read(GetJobs((job_id,)))
        return row.payload

    async def accepted_ref(self, job_id: str) -> str | None:
        """The provider's reference from the last time that a provider accepted the job."""
        events = await self.engine.store.read(ListJobEvents(job_id, "accepted"))
        return (events[-1].data or {})["ref"] if events else None

    async def due_polls(self, tools: Collection[str], limit: int) -> list[DuePoll]:
        """Jobs of these tools whose providers are to be polled, now or later, the first due first."""
        return await self.engine.store.read(ListPolls(tuple(tools), limit))

    async def hold_poll(self, job_id: str, hold_s: float, held_at: int | None = None) -> Job | None:
        """Holds a job whose provider is due for a poll or, with `held_at`, renews the hold; None if somebody else was
        faster."""
        command = c.HoldPoll(job_id, arg.milliseconds(hold_s, "hold_s"), held_at)
        return (await self._ask(command, PollHeld)).job

    async def end_poll(
        self, job_id: str, held_at: int, poll_s: float, *, after_s: float = 0.0, progress: int | None = None
    ) -> int | None:
        """Records that the work goes on; returns when the provider is polled again."""
        shown = None if progress is None else min(max(progress, 0), 100)
        after_ms = int(after_s * 1_000)
        command = c.EndPoll(job_id, held_at, arg.milliseconds(poll_s, "poll_s"), after_ms, shown)
        return (await self._ask(command, PollEnded)).poll_at

    async def finish_awaiting(self, job: Job, ending: c.Ending) -> Finished:
        """Writes how a run ended at its provider. A report that is late or about another run changes nothing."""
        jitter = random.random()  # noqa: S311 (jitter, not a secret)
        return await self._ask(c.Finish(job.id, ending, jitter=jitter, attempt=job.attempts), Finished)

    def polls_heard(self) -> int:
        """What to pass to `wait_for_polls` as `since`."""
        return self.engine.wakeups.heard((POLLS,))

    async def wait_for_polls(self, timeout_s: float, *, since: int) -> bool:
        """Returns True when a provider has called back, or False when the time is up."""
        return await self.engine.wakeups.wait((POLLS,), timeout_s, since)


def _no_address() -> Refusal:
    return Refusal("NOT_FOUND", "there is no such call-back address.")


def _forged() -> Refusal:
    return Refusal("UNAUTHENTICATED", "the call-back is not signed as its provider signs; nothing was changed.")


def _ref_of(provider: Provider, callback: ReceivedCallback) -> str | None:
    try:
        ref = provider.refs(callback)
    except Exception:
        log.exception("the reference in a call-back of %s could not be read", provider.name)
        return None
    return None if ref is None else clean_text(str(ref))[:REF_LENGTH]


def _told(status: ProviderStatus, most: int) -> str | None:
    """What a call-back says of the work, in at most `most` bytes. A result that is longer will be asked for."""
    match status:
        case ProviderSucceeded(result) if result is not None and len(msgspec.json.encode(status)) > most:
            status = ProviderSucceeded()
        case ProviderFailed(error):
            # A character may take six bytes of JSON.
            status = replace(status, error=error[: min(WORDS_LENGTH, most // 6)])
    return msgspec.json.encode(status).decode()


def clean_status(status: ProviderStatus) -> ProviderStatus:
    """What a provider says of the work, with texts that can be stored, whoever wrote the provider's class."""
    match status:
        case ProviderFailed(error=error, details=details):
            return replace(status, error=clean_text(error), details=None if details is None else clean_text(details))
        case ProviderSucceeded(result) if result is not None:
            return ProviderSucceeded(clean_result(result))
        case _:
            return status


def clean_result(result: ProviderResult) -> ProviderResult:
    files = tuple(
        RemoteFile(
            clean_text(file.url), *(None if text is None else clean_text(text) for text in (file.name, file.media_type))
        )
        for file in result.files
    )
    return replace(result, output=clean_json(msgspec.to_builtins(result.output)), files=files)


def _kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: arg.text(redacted(text[:HEADER_LENGTH]))
        for name, text in headers.items()
        if name in KEPT_HEADERS or name.startswith(KEPT_PREFIXES)
    }


def kept_body(body: bytes, most: int) -> str:
    """The beginning of a call-back's body, with secrets redacted. The rest is not searched, because anybody who knows
    one address can send a large body. A secret that the first cut divides lies in the last bytes, which are dropped."""
    text = body[: most + DIVIDED_BYTES].decode("utf-8", "replace")
    found = redacted(text)
    return _cut(found if len(body) <= most + DIVIDED_BYTES else found[:-DIVIDED_BYTES], most)


def _cut(text: str, most: int) -> str:
    """The text in at most `most` bytes, without characters that cannot be stored."""
    return clean_text(text).encode()[:most].decode("utf-8", "ignore")
