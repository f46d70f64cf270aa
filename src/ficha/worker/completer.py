"""Writes how runs ended: turns results into commands, groups them, retries while the database is away, and logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from .. import tracing
from .. import validation as arg
from ..backoff import away_pause_s
from ..core import commands as c
from ..core.outcomes import Finished, Refusal
from ..engine.views import Lease
from ..errors import Refused
from ..operations import LeaseOperations
from ..redaction import redacted
from ..store.base import StoreError
from .context import Facts
from .failure import Failure, SetupFailed
from .results import ENDINGS, Accepted, Cancel, Partial, PostponedStart, Retry, StartedWork
from .run import Run
from .run_log import is_logged, record

NOT_RESULTS = (Failure, SetupFailed, StartedWork, PostponedStart, *ENDINGS)
"""What a run may end with instead of a result."""
KEPT_CHARS = 4_000
"""How many characters of a traceback's end are stored with the job."""


class End(Struct, frozen=True, eq=False, gc=False):
    """How one run ended; `run` is None if it never began. `note` has further fields of its log line."""

    lease: Lease
    facts: Facts
    ending: c.Ending
    duration_s: float
    run: Run | None
    note: dict[str, Any] | None = None


class Completer:
    """Writes all ends of one turn of the event loop in one call.

    written: called with each end once it is written, and with the job's status if the end changed nothing. gives_up:
    whether to stop retrying while the database is unreachable.
    """

    def __init__(
        self, operations: LeaseOperations, written: Callable[[End, str | None], None], gives_up: Callable[[], bool]
    ) -> None:
        self._operations = operations
        self._written = written
        self._gives_up = gives_up
        self._ends: list[End] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.unwritten = 0

    def add(self, end: End) -> None:
        self.unwritten += 1
        self._ends.append(end)
        if len(self._ends) == 1:
            # In a new context, not that of the run that ended first, because ends of other runs are written with it.
            asyncio.get_running_loop().call_soon(self._flush, context=Context())

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def end_of(self, run: Run, result: Any) -> End:
        """How a run ended: by what stopped it, or by its handler's result."""
        ending: c.Ending
        note: dict[str, Any] | None = None
        if run.stop_reason == "timeout":
            ending, note = c.TimedOut(), {"error": "timed out"}
        elif run.stop_reason == "stopping" and (result is None or isinstance(result, Failure)):
            # An error after the request to stop says nothing about the job.
            ending = c.Interrupted("the worker was stopped")
        else:
            ending = _with_provider_cost(run, self._ending_of(result))
            if isinstance(result, Failure | SetupFailed):
                note = {"error": arg.text(redacted(result.error))}
                if result.traceback is not None:
                    note["exception"] = redacted(result.traceback)
        return End(run.lease, run.job.facts, ending, run.duration_s, run, note)

    def _ending_of(self, result: Any) -> c.Ending:
        """Turns a handler's result, or its `Failure`, into a command's ending. A result that cannot be stored fails the
        job for good: a retry would not help."""
        try:
            if not isinstance(result, NOT_RESULTS):
                return self._operations.completed(result)
            match result:
                case Failure(error, final, lost):
                    text = redacted(error)
                    if lost:
                        return self._operations.interrupted(text, lost=True)
                    return c.Failed(arg.text(text), final, result.for_user, _kept(result.traceback))
                case SetupFailed():
                    return self._operations.interrupted(redacted(f"the tool could not be set up: {result.error}"))
                case Partial(value, delivered, of):
                    return self._operations.completed(value, delivered, of)
                case Retry(after, reason):
                    return self._operations.retry_later(after, None if reason is None else redacted(str(reason)))
                case Cancel(reason):
                    return self._operations.cancelled(redacted(str(reason)))
                case Accepted(ref):
                    return self._operations.accepted(ref)
                case PostponedStart(after, reason, unsent):
                    return replace(self._operations.retry_later(after, redacted(reason)), unsent=unsent)
                case StartedWork(ref, poll_s):
                    return self._operations.accepted(ref, poll_s)
                case _ as never:
                    assert_never(never)
        except Exception as error:
            return c.Failed(arg.text(f"the result cannot be stored: {error}"), final=True)

    def _flush(self) -> None:
        ends, self._ends = self._ends, []
        task = asyncio.create_task(self._write(ends), name="ficha completer")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, ends: list[End]) -> None:
        """Retries while the database is unreachable; the renewer keeps the leases meanwhile."""
        tries = 0
        while True:
            again: list[tuple[End, Refused]] = []
            for end, answer in zip(ends, await self._answers(ends), strict=True):
                if isinstance(answer, Refused) and answer.retryable and not self._gives_up():
                    again.append((end, answer))
                else:
                    self.unwritten -= 1
                    _log(end, answer)
                    if tracing.active is not None:
                        _trace(tracing.active, end, answer)
                    self._written(end, _unchanged(answer))
            if not again:
                return
            tries += 1
            for end, refused in again:
                record("unwritten", end.facts, "running", end.duration_s, level=logging.WARNING, error=str(refused))
            await asyncio.sleep(away_pause_s(tries))
            ends = [end for end, _ in again]

    async def _answers(self, ends: list[End]) -> list[Finished | Refused]:
        for end in ends:
            if end.run is not None and end.run.writer.left_out:
                await end.run.writer.tell_left_out()
        try:
            return await self._operations.end_many((end.lease, end.ending) for end in ends)
        except StoreError as error:
            return [Refused.of(Refusal("OVERLOADED", str(error)))] * len(ends)
        except Exception as error:
            return [Refused.of(Refusal("INVALID_STATE", f"{type(error).__name__}: {error}"))] * len(ends)


def _unchanged(answer: Finished | Refused) -> str | None:
    """The job's status, if an end came too late to change anything; None if it was written."""
    if isinstance(answer, Finished):
        return None if answer.changed else answer.status
    return str(answer.details.get("status", "unknown"))


def _with_provider_cost(run: Run, ending: c.Ending) -> c.Ending:
    """Adds what the provider charges, as the tool computes it, unless the run itself reported it."""
    if run.tool.provider_cost is None or not isinstance(ending, c.Completed) or ending.provider_cost is not None:
        return ending
    return replace(ending, provider_cost=run.tool.provider_cost_of(run.lease.claimed.payload))


def _kept(traceback: str | None) -> str | None:
    """The end of a traceback, which names the failed line, for the job's history."""
    return None if traceback is None else arg.text(redacted(traceback)[-KEPT_CHARS:])


def _trace(spans: tracing.Tracing, end: End, answer: Finished | Refused) -> None:
    """Ends the span of the run, and adds a span for the write of its end."""
    if end.run is None or end.run.span is None:
        return
    job, facts = end.lease.claimed.job, end.facts
    outcome = answer.status if isinstance(answer, Finished) else str(answer.details.get("status", "lost"))
    failed = type(end.ending).__name__ if isinstance(end.ending, c.Failed | c.TimedOut) else None
    spans.add(
        f"finish {job.spec.tool}",
        facts.trace_context,
        tracing.since(end.run.began_at + end.duration_s),
        role="CLIENT",
        attributes={
            **tracing.attributes_of(job.id, job.spec, facts.attempt, job.epoch),
            "messaging.operation.name": "finish",
            "messaging.operation.type": "settle",
            "ficha.outcome": outcome,
        },
        error=None if isinstance(answer, Finished) else answer.code,
    )
    spans.end_run(end.run.span, outcome, failed)


def _log(end: End, answer: Finished | Refused) -> None:
    if isinstance(answer, Finished):
        # A job that failed for good is somebody's loss, so a log of warnings shows it.
        level = logging.WARNING if answer.status == "failed" else logging.INFO
        if not is_logged(level):
            return
        back = "returned" if isinstance(end.ending, c.Interrupted) else "retried"
        message = back if answer.status == "queued" else answer.status
        record(message, end.facts, answer.status, end.duration_s, level=level, **(end.note or {}))
    elif answer.code in ("LEASE_LOST", "NOT_FOUND"):
        record("lost", end.facts, str(answer.details.get("status", "lost")), end.duration_s)
    else:
        # Its lease will expire, and another worker will take the job.
        record("abandoned", end.facts, "running", end.duration_s, level=logging.ERROR, error=str(answer))
