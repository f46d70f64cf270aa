"""Tools: kinds of job, and what all jobs of a kind have in common."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from .core.checkpoints import Checkpoints
from .core.outcomes import Refusal
from .core.policy import MAX_AMOUNT, split
from .core.visibility import Audience

if TYPE_CHECKING:
    from .payload_schema import Payload

log = logging.getLogger("ficha.tools")

Cost = int | Callable[..., int]
Isolation = Literal["auto", "process"]


class PayloadMismatch(Exception):
    """The payload does not fit the tool's handler (any more); the message names each field that does not."""


class Tool(Struct, frozen=True, kw_only=True):
    """A kind of job. Its handler's signature is the schema of its payload.

    cost: credits for one job: a number, or a function with some of the payload's fields as parameters, which get the
        handler's values.
    pool: the pool whose slots and workers it uses. Defaults to "default".
    timeout: seconds in `starting` or `running` before a job is failed and refunded. Defaults to 600.
    max_wait: seconds in the queue before a job is cancelled and refunded. Defaults to no limit.
    attempts: how often a job may run before an error is final. Defaults to 1: the first error is.
    backoff, backoff_max: seconds before the first retry, doubling up to the second number. Random jitter shortens each
        by up to half, so that jobs that failed together do not retry together. Default to 1 and 300.
    priority: added to the plan's priority; a larger number is served later. Defaults to 0.
    items: the payload's field with the number of items requested, or with a list of them.
    max_items: submits with more items are split into jobs of at most this many, as one batch.
    dedupe: the same payload is computed once; other jobs get the result free of charge, also those that wait already.
    isolation: where the handler runs. "auto": a coroutine on the worker's loop, a plain function in a thread;
        "process": in a child process, for code that keeps a core busy or may crash. Defaults to "auto".
    memory_mb: the memory limit of a child process, in MiB. Defaults to none. Only with isolation="process".
    recycle_after: a child process is replaced after this many jobs. Defaults to never. Only with isolation="process".
    jobs_per_call: up to this many jobs share one call, `handler(jobs)` or `handler(jobs, payloads: list[Model])`; each
        still has its own outcome, charge and lease. Defaults to one job per call.
    linger_ms: how long a call that is not full waits for more jobs. Defaults to 20.
    max_calls: how many calls of the handler may be under way in one worker, such as 1 for a model that needs a device
        to itself. Further jobs that the worker holds wait for their turn. Defaults to no limit but `concurrency`.
    setup: a function that is called once per thread if the handler is a plain function, once per child process, else
        once per worker. Handlers find what it returns, such as a model, in `job.setup`. If it raises, jobs go back to
        the queue without an attempt used up, and the worker tries it again later.
    devices: names of devices, such as "cuda:0". Each thread or child process of the tool is bound to one of them, the
        one that has the fewest; handlers find it in `job.device`, and a `setup` with a parameter gets it. `max_calls`
        then defaults to the number of devices. Not for a coroutine handler without isolation="process".
    checkpoints: the names that a handler may save. In a list, a job begins with the first, and each may follow only the
        one before it. A mapping gives for each name those that may follow it; a job begins with one that follows no
        other. A name may be saved again; one before the job's last changes nothing. Defaults to any name in any order.
    fatal: an exception class, or several, for which a retry cannot help: the job fails at once, as for `FinalError`.
    audience: "user": users may call it over HTTP with their own key or token. "service": only the application may,
        in-process or with a service or admin key; users do not see it. Defaults to "user".
    plans: the plans whose users may call it. Binds users only, as `audience` does. Defaults to all plans.
    stop_grace: seconds for a cancelled handler to clean up before it is abandoned (a thread) or killed (a process).
        Defaults to 5.
    """

    name: str
    handler: Callable[..., Any]
    payload: Payload
    cost: Cost = 0
    pool: str = "default"
    timeout: float = 600.0
    max_wait: float | None = None
    attempts: int = 1
    backoff: float = 1.0
    backoff_max: float = 300.0
    priority: int = 0
    items: str | None = None
    max_items: int | None = None
    dedupe: bool = False
    isolation: Isolation = "auto"
    memory_mb: int | None = None
    recycle_after: int | None = None
    jobs_per_call: int | None = None
    linger_ms: int = 20
    max_calls: int | None = None
    setup: Callable[..., Any] | None = None
    devices: tuple[str, ...] = ()
    checkpoints: Checkpoints | None = None
    fatal: tuple[type[Exception], ...] = ()
    stop_grace: float = 5.0
    audience: Audience = "user"
    plans: tuple[str, ...] | None = None
    asked: frozenset[str] | None = None
    """The fields that a cost function has as parameters; None if it takes all."""
    is_async: bool = False
    """Whether its handler is a coroutine function."""
    setup_takes_device: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "is_async", inspect.iscoroutinefunction(self.handler))
        if self.devices and self.max_calls is None:
            force_setattr(self, "max_calls", len(self.devices))

    def device_for(self, used: Iterable[str | None]) -> str | None:
        """The device of a new thread or child process, given those of the others: the one that is used least."""
        uses = Counter(used)
        return min(self.devices, key=lambda device: uses[device], default=None)

    def call_setup(self, device: str | None) -> Any:
        """What the setup returns; for a coroutine function, what must be awaited."""
        if self.setup is None:
            return None
        return self.setup(device) if self.setup_takes_device else self.setup()

    def schema(self) -> dict[str, Any]:
        """The payload's JSON Schema, with the handler's docstring as its description."""
        words = inspect.getdoc(self.handler) if inspect.isroutine(self.handler) else None
        return {**self.payload.schema(), "title": self.name} | ({"description": words} if words else {})

    @property
    def takes_payloads(self) -> bool:
        """Whether a handler of several jobs asks for their payloads beside them."""
        return self.payload.is_item

    def arguments(self, text: str) -> Any:
        """What the handler gets for a payload: its keyword arguments, with the defaults; or, if it takes several jobs
        per call, the item for its list of payloads. Raises PayloadMismatch if the payload does not fit."""
        try:
            return self.payload.read(text)
        except Exception as error:
            # Only here: pydantic takes longer to import than all else, and not every process declares a tool.
            from pydantic import ValidationError

            from .payload_schema import problems

            if not isinstance(error, ValidationError):
                raise
            raise PayloadMismatch(f"the payload does not fit tool {self.name}: {problems(error)}") from None

    def cost_of(self, value: Any) -> int | Refusal:
        """What a payload costs; `value` is what the handler would get. An invalid cost is refused before anything is
        charged."""
        cost: Any = self.cost
        if callable(cost):
            fields = self.payload.fields(value)
            asked = fields if self.asked is None else fields.keys() & self.asked
            try:
                cost = cost(**{name: fields[name] for name in asked})
            except Exception as error:
                # The error's own text is for whoever reads the log; the caller may be anybody.
                log.warning("the cost function of tool %s raised an error", self.name, exc_info=True)
                return Refusal(
                    "INVALID_PAYLOAD",
                    f"tool {self.name} has no price for this payload: its cost function raised {type(error).__name__}; "
                    "nothing was charged.",
                )
        if isinstance(cost, bool) or not isinstance(cost, int) or not 0 <= cost <= MAX_AMOUNT:
            return Refusal(
                "INVALID_PAYLOAD",
                f"the cost function of tool {self.name} returned {_short(cost)}; it must be a whole number from 0 to "
                f"{MAX_AMOUNT}.",
            )
        return cost

    def units_of(self, payload: Mapping[str, Any], value: Any) -> int | Refusal:
        """How many items a payload requests; `value` is what the handler would get."""
        if self.items is None:
            return 1
        asked = self._asked(self.items, payload, value)
        units = len(asked) if isinstance(asked, list | tuple) else asked
        if isinstance(units, bool) or not isinstance(units, int) or units < 1:
            return Refusal(
                "INVALID_PAYLOAD", f"tool {self.name} needs {self.items} to be at least 1, not {_short(asked)}."
            )
        return units

    def _asked(self, items: str, payload: Mapping[str, Any], value: Any) -> Any:
        return payload[items] if items in payload else self.payload.json(value).get(items, 1)

    def jobs_for(self, units: int) -> int:
        """How many jobs this many items are split into."""
        return 1 if self.max_items is None else -(-units // self.max_items)

    def parts(self, payload: Mapping[str, Any], value: Any, units: int) -> list[tuple[Mapping[str, Any], int]]:
        """The payloads of the job, or of the several jobs that it is split into, each with its number of items."""
        if self.items is None or self.max_items is None or units <= self.max_items:
            return [(payload, units)]
        asked = self._asked(self.items, payload, value)
        parts: list[tuple[Mapping[str, Any], int]] = []
        start = 0
        for size in split(units, self.max_items):
            share = asked[start : start + size] if isinstance(asked, list | tuple) else size
            parts.append(({**payload, self.items: share}, size))
            start += size
        return parts


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"
