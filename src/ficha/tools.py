"""Tools: kinds of job, and what all jobs of a kind have in common."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from .core.checkpoints import Checkpoints
from .core.outcomes import Refusal
from .core.payload import Dedupe
from .core.policy import MAX_AMOUNT, MAX_PROVIDER_COST, millionths, split
from .core.records import JobSpec
from .core.visibility import Audience
from .job_files import FoundFiles, JobFile
from .providers import Provider

if TYPE_CHECKING:
    from .payload_schema import Payload

log = logging.getLogger("ficha.tools")

Cost = int | Callable[..., int]
ProviderCost = float | Callable[..., float]
"""A cost in the operator's currency, or a function that computes it."""
Isolation = Literal["auto", "process"]


class PayloadMismatch(Exception):
    """The payload does not fit the tool's handler (any more); the message names each field that does not."""


class Tool(Struct, frozen=True, kw_only=True):
    """A kind of job. Its handler's signature is the schema of its payload; `Ficha.tool` describes the options.

    down_with: the name of the provider whose outage refuses a submit; None if there is none, or its jobs wait.
    asked, provider_asked: the fields that the functions of `cost` and `provider_cost` have as parameters; None if one
        takes all.
    is_async: whether its handler is a coroutine function.
    setup_takes_device: whether `setup` is called with the device.
    provider: the external provider that does the work; the handler makes the call.
    """

    name: str
    handler: Callable[..., Any]
    payload: Payload
    cost: Cost = 0
    pool: str = "default"
    timeout: float = 600.0
    max_wait: float | None = None
    attempts: int = 1
    max_recoveries: int | None = None
    backoff: float = 1.0
    backoff_max: float = 300.0
    priority: int = 0
    items: str | None = None
    max_items: int | None = None
    dedupe: Dedupe = False
    isolation: Isolation = "auto"
    memory_mb: int | None = None
    environment: tuple[str, ...] = ()
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
    provider_cost: ProviderCost | None = None
    down_with: str | None = None
    asked: frozenset[str] | None = None
    provider_asked: frozenset[str] | None = None
    is_async: bool = False
    setup_takes_device: bool = False
    provider: Provider | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "is_async", inspect.iscoroutinefunction(self.handler))
        if self.devices and self.max_calls is None:
            force_setattr(self, "max_calls", len(self.devices))

    def device_for(self, used: Iterable[str | None]) -> str | None:
        """The device of a new thread or child process: the one that the others, whose devices are given, use least."""
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
        """Whether a handler of several jobs also takes the list of their payloads."""
        return self.payload.is_item

    def files_named(self, text: str) -> tuple[str, ...]:
        """The ids of the files that a payload names. Raises PayloadMismatch if the payload does not fit any more."""
        self.arguments(text, found := FoundFiles(JobFile))
        return found.ids

    def arguments(self, text: str, found: FoundFiles | None = None) -> Any:
        """What the handler gets for a payload: its keyword arguments, with the defaults; or, if it takes several jobs
        per call, the item for its list of payloads. Raises PayloadMismatch if the payload does not fit.

        found: collects the files that the payload names.
        """
        try:
            return self.payload.read(text, found)
        except Exception as error:
            # Imported here: pydantic takes longer to import than all else, and not every process declares a tool.
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
                # The error's own text goes only to the log, because the caller may be anybody.
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

    def job_spec(self, cost: int, units: int, content_hash: str | None = None, **labels: Any) -> JobSpec:
        """The spec of a job of this tool. `labels` are those of its submit (`labels_of`)."""
        return JobSpec(
            self.name,
            self.pool,
            cost,
            units,
            int(self.timeout * 1_000),
            self.attempts,
            int(self.backoff * 1_000),
            int(self.backoff_max * 1_000),
            content_hash,
            **labels,
        )

    @property
    def max_wait_ms(self) -> int | None:
        return None if self.max_wait is None else int(self.max_wait * 1_000)

    def provider_cost_of(self, text: str) -> int | None:
        """What the provider charges for a job with this payload, in millionths, as the tool computes it; None if it
        does not. The job is already done, so an error is only logged, and the cost stays unknown."""
        cost: Any = self.provider_cost
        if not callable(cost):
            return None if cost is None else millionths(cost)
        try:
            fields = self.payload.fields(self.arguments(text))
            asked = fields if self.provider_asked is None else fields.keys() & self.provider_asked
            found = cost(**{name: fields[name] for name in asked})
            if (cost_millionths := millionths(found)) is None:
                raise ValueError(f"it returned {_short(found)}, which is not a number from 0 to {MAX_PROVIDER_COST}")
        except Exception:
            log.warning("the function for the provider cost of tool %s failed", self.name, exc_info=True)
            return None
        return cost_millionths

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

    @property
    def has_equal_parts(self) -> bool:
        """Whether jobs with the same number of items are alike, whatever the items: the price does not depend on them,
        and no earlier result answers them."""
        return not callable(self.cost) and not self.dedupe

    def parts(
        self, payload: Mapping[str, Any], value: Any, units: int, *, by_size: bool = False
    ) -> Iterator[tuple[Mapping[str, Any], int, int]]:
        """The payloads of the job, or of the several jobs that it is split into: each with its number of items, and how
        many jobs have this payload; `by_size`: one payload of each size, and how many jobs have this size."""
        if self.items is None or self.max_items is None or units <= self.max_items:
            yield payload, units, 1
            return
        asked = self._asked(self.items, payload, value)
        is_list = isinstance(asked, list | tuple)
        start = 0
        for size, jobs in split(units, self.max_items):
            if not is_list or by_size:
                yield {**payload, self.items: asked[start : start + size] if is_list else size}, size, jobs
                start += size * jobs
                continue
            for _ in range(jobs):
                yield {**payload, self.items: asked[start : start + size]}, size, 1
                start += size


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"
