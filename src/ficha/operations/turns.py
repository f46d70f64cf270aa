"""External providers: turns to send requests, circuit breakers, and what the work earned and cost."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from functools import lru_cache
from typing import Final, Protocol

from msgspec.structs import replace

from .. import validation as arg
from ..core.commands import CloseBreaker, EndTurn, OpenBreaker, TakeTurn
from ..core.outcomes import BreakerChanged, Refusal, TurnEnded, TurnTaken
from ..core.policy import DAY, MILLISECOND, TurnTerms, day_of
from ..core.turns import spacing_us
from ..engine.views import MarginView, ProviderView, provider_view
from ..errors import RateLimited, Refused
from ..ids import new_id
from ..providers.base import PERIODS_S, RATE, Provider
from ..store.base import ProviderRow, StoreError
from .base import Operations

log = logging.getLogger("ficha.providers")

LONGEST_WAIT_S: Final = 30.0
"""The longest that a caller waits for its turn; a longer wait is refused with a time to retry."""
GRACE_S: Final = 30.0
"""How long after its time-out a request still counts as under way; then its caller is treated as dead."""
LOOK_AGAIN_S: Final = 0.2
"""About how long a caller waits before it asks again, while a provider has all its `at_once` requests under way."""
SLACK_SHARE: Final = 60
SLACK_MS: Final = (250, 5_000)
"""How late a request may go out: the rate's period divided by `SLACK_SHARE`, within the bounds of `SLACK_MS`."""
REASON_LENGTH: Final = 200
MARGIN_DAYS: Final = 366
MARGIN_LINES: Final = 10_000
"""`MARGIN_DAYS` is the longest range of `margins`, `MARGIN_LINES` the most lines of its answer."""


class BreakerTerms(Protocol):
    """When a provider counts as down: after `failures` failures in a row, at first for `open_s`."""

    @property
    def failures(self) -> int: ...
    @property
    def open_s(self) -> float: ...


class LimitedProvider(Protocol):
    """What a turn needs of a provider: `ficha.providers.Provider` is one."""

    name: str
    rate: str | None
    at_once: int | None
    timeout_s: float

    @property
    def breaker(self) -> BreakerTerms: ...


class Turn:
    """Permission to send one request. Set `is_fault` if the provider failed, and `error` to its message, for operators;
    set it to None if no request was sent.

    A request that was cancelled from outside counts neither as a success nor, unless `is_fault` is set, as a failure.
    """

    __slots__ = ("error", "is_fault", "is_probe", "turn_id", "waited_s")

    def __init__(self, turn_id: str, *, waited_s: float, is_probe: bool) -> None:
        self.turn_id = turn_id
        self.waited_s = waited_s
        self.is_probe = is_probe
        self.is_fault: bool | None = False
        self.error: str | None = None


class TurnOperations(Operations):
    @asynccontextmanager
    async def turn(self, provider: LimitedProvider, *, longest_wait_s: float = LONGEST_WAIT_S) -> AsyncIterator[Turn]:
        """Waits until a request may go to the provider, by its limits over all processes; then records its outcome:

            async with app.turn(provider) as turn:
                turn.is_fault = (await send()).status >= 500

        Raises RateLimited if the wait would be longer than `longest_wait_s`, and ProviderDown while the provider's
        circuit breaker is open; both say when to retry.
        """
        terms = terms_of(provider)
        turn = await self._take_turn(provider.name, terms, longest_wait_s)
        sent_at = time.monotonic()

        async def end(is_fault: bool | None) -> None:
            took_ms = round((time.monotonic() - sent_at) * 1_000)
            await self._end_turn(provider.name, terms, turn, is_fault=is_fault, took_ms=took_ms)

        try:
            yield turn
        except Exception:
            await end(turn.is_fault)
            raise
        except BaseException:
            await end(turn.is_fault or None)
            raise
        await end(turn.is_fault)

    async def provider_states(self) -> list[ProviderView]:
        """The state of each provider, by name: the providers of the tools, and others that have stored state."""
        declared = self._declared_providers()
        views = {name: provider_view(ProviderRow(name, 0, None, None)) for name in declared}
        views |= {view.name: view for view in await self.queries.providers()}
        for name, provider in declared.items():
            views[name] = replace(views[name], rate=provider.rate, at_once=provider.at_once)
        return sorted(views.values(), key=lambda view: view.name)

    async def open_breaker(self, provider: str, *, seconds: float = 3_600.0, reason: str | None = None) -> ProviderView:
        """Opens a provider's circuit breaker: no request goes out for that time, then a probe does."""
        name = arg.name(provider, "a provider")
        words = None if reason is None else arg.text(reason)[:REASON_LENGTH]
        command = OpenBreaker(name, arg.milliseconds(seconds, "seconds"), name in self._declared_providers(), words)
        await self._ask(command, BreakerChanged)
        return await self._provider(name)

    async def reset_breaker(self, provider: str) -> ProviderView:
        """Closes a provider's circuit breaker: requests go out again at once."""
        name = arg.name(provider, "a provider")
        await self._ask(CloseBreaker(name, name in self._declared_providers()), BreakerChanged)
        return await self._provider(name)

    async def _provider(self, name: str) -> ProviderView:
        return next(view for view in await self.provider_states() if view.name == name)

    def _declared_providers(self) -> dict[str, Provider]:
        return {tool.provider.name: tool.provider for tool in self.tools.values() if tool.provider is not None}

    async def margins(self, *, since: date | None = None, until: date | None = None) -> list[MarginView]:
        """What jobs earned in credits and what their providers charged, by UTC day of the submit, tool and plan, oldest
        first. Only jobs whose provider cost is known are counted.

        since, until: the first and the last day. Default to 29 days before the last, and to today.
        """
        last = day_of(await self.queries.now()) if until is None else arg.day(until, "until")
        first = last - 29 * DAY if since is None else arg.day(since, "since")
        if not 0 <= last - first < MARGIN_DAYS * DAY:
            raise arg.invalid(f"since must not be after until, and they must span at most {MARGIN_DAYS} days")
        found = await self.queries.margins(first, last + DAY, MARGIN_LINES + 1)
        if len(found) > MARGIN_LINES:
            words = f"there are more than {MARGIN_LINES} lines from since to until; ask for fewer days."
            raise Refused.of(Refusal("TOO_LARGE", words, details={"limit": MARGIN_LINES}))
        return found

    async def _take_turn(self, provider: str, terms: TurnTerms, longest_wait_s: float) -> Turn:
        """Takes a turn and waits for its time. If this process misses that time, it gives the turn back and takes
        another: the limits hold only if requests go out when planned, or little later."""
        clock = asyncio.get_running_loop().time
        began_at = clock()
        gives_up_at = began_at + longest_wait_s
        while True:
            asked_at = clock()
            left_ms = max(0, int((gives_up_at - asked_at) * 1_000))
            command = TakeTurn(provider, new_id(), replace(terms, longest_wait_ms=left_ms))
            try:
                taken = await self._ask(command, TurnTaken)
            except RateLimited as refused:
                pause_s = LOOK_AGAIN_S * (0.5 + random.random())  # noqa: S311 (jitter, not a secret)
                if "at_once" not in refused.details or clock() + pause_s > gives_up_at:
                    raise
                await asyncio.sleep(pause_s)
                continue
            turn = Turn(taken.turn_id, waited_s=0.0, is_probe=taken.is_probe)
            try:
                await asyncio.sleep(taken.wait_ms / 1_000)
            except BaseException:
                await self._end_turn(provider, terms, turn, is_fault=None)
                raise
            # The database planned the turn for `asked_at` plus the wait or later, so it is late by no more than this.
            late_s = clock() - asked_at - taken.wait_ms / 1_000
            if late_s * 1_000 <= terms.slack_ms:
                turn.waited_s = clock() - began_at
                return turn
            await self._end_turn(provider, terms, turn, is_fault=None)

    async def _end_turn(
        self, provider: str, terms: TurnTerms, turn: Turn, *, is_fault: bool | None, took_ms: int | None = None
    ) -> None:
        """Writes how a turn ended. A failure to write is only logged: the request was made, and the turn expires."""
        error = None if turn.error is None or not is_fault else arg.text(turn.error)
        try:
            await self._ask(EndTurn(provider, turn.turn_id, terms, is_fault, error, took_ms), TurnEnded)
        except (StoreError, Refused) as failed:
            log.warning("the end of a request to provider %s could not be written: %s", provider, failed)


def terms_of(provider: LimitedProvider) -> TurnTerms:
    """A provider's limits as the rules use them."""
    breaker = provider.breaker
    return _terms(provider.rate, provider.at_once, provider.timeout_s, breaker.failures, breaker.open_s)


@lru_cache(maxsize=256)
def _terms(rate: str | None, at_once: int | None, timeout_s: float, failures: int, open_s: float) -> TurnTerms:
    grace_ms = round(GRACE_S * 1_000)
    terms = TurnTerms(
        # A request that goes out later could still be under way when its caller is treated as dead.
        slack_ms=grace_ms,
        at_once=at_once,
        hold_ms=round(timeout_s * 1_000) + grace_ms,
        failures=failures,
        open_ms=round(open_s * 1_000),
    )
    terms = replace(terms, open_max_ms=max(terms.open_max_ms, terms.open_ms))
    if rate is None:
        return terms
    found = RATE.fullmatch(rate)
    if found is None:
        raise ValueError(f'rate must be a number per second, minute or hour, such as "60/m", not {rate!r}')
    period_ms = PERIODS_S[found[2]] * 1_000
    slack_ms = min(max(period_ms // SLACK_SHARE, SLACK_MS[0]), SLACK_MS[1])
    interval_us = spacing_us(int(found[1]), period_ms * MILLISECOND, 1, slack_ms * MILLISECOND)
    return replace(terms, interval_us=interval_us, slack_ms=slack_ms)
