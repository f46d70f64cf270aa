"""Turns: how many requests go to an external provider, over all processes; and its circuit breaker.

A caller takes a turn, waits for as long as the turn says, sends its request, and reports how it went. A refused turn
reserves nothing.

The rate is a schedule of evenly spaced instants. `ProviderState.next_at` is the first free one. A turn takes it, and
the next turn, in whichever process, takes the one after. `burst` turns may run ahead of the schedule. So in any period
of length L at most `burst - 1 + ceil(L / interval)` requests are planned; `spacing_us` computes the interval from a
rate.

The circuit breaker is closed while there is no `ProviderOutage`. After `failures` failures in a row it opens: every
turn is refused. When its time is over, one turn is let through as a probe. If that works, the breaker closes; if it
fails, the breaker opens for twice as long, up to a bound. A probe whose caller dies is ignored, and another follows.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from .audit import record_of_system
from .commands import CloseBreaker, EndTurn, OpenBreaker, TakeTurn
from .measures import CallOutcome, EndedCall
from .outcomes import BreakerChanged, Refusal, TurnEnded, TurnTaken
from .policy import HOUR, MILLISECOND, SECOND, TurnTerms
from .records import ProviderOutage, ProviderState
from .refusals import no_provider, provider_down
from .rule import Audited, Needs, Rule
from .workspace import Workspace

BUSY_RETRY_S: Final = 1.0
"""How long to wait before asking again, while as many requests are out as are allowed."""
FARTHEST: Final = HOUR
"""Nobody waits for a turn, or holds one, for longer. A state that says otherwise is from before the clock was set back,
and does not count."""
OPEN_MS_MOST: Final = 30 * 86_400_000
"""The longest that an operator may open a breaker for: 30 days."""


def take_turn(ws: Workspace, command: TakeTurn) -> TurnTaken | Refusal:
    """Reserves the next request. The refusals are in order of precedence."""
    terms, now = command.terms, ws.now
    outage = ws.find(ProviderOutage, command.provider)
    if outage is not None and outage.until_at > now:
        return provider_down(outage, now)
    state = ws.find(ProviderState, command.provider) or ProviderState(command.provider)
    turns = held_turns(state, now)
    if terms.at_once is not None and len(turns) >= terms.at_once:
        return _busy(command.provider, terms.at_once)
    wait_us = _wait_us(state, terms, now)
    if wait_us > terms.longest_wait_ms * MILLISECOND:
        return _too_fast(command.provider, wait_us)
    until_at = now + wait_us + terms.hold_ms * MILLISECOND
    after = replace(
        state,
        next_at=max(_next_at(state, terms, now), now) + terms.interval_us if terms.interval_us else state.next_at,
        turns=turns if terms.at_once is None else (*turns, (command.turn_id, until_at)),
    )
    if after != state:
        ws.put(after)
    if outage is not None:
        ws.put(replace(outage, until_at=until_at, probe=command.turn_id))
    return TurnTaken(command.turn_id, -(-wait_us // MILLISECOND), is_probe=outage is not None)


def spacing_us(requests: int, period_us: int, burst: int, slack_us: int) -> int:
    """Returns the time between two turns with which no period of `period_us` ever has more than `requests` requests,
    although `burst` of them may run ahead of the schedule and each may go out up to `slack_us` late.

    A request that goes out in a period was planned in it or in the slack before it, so the period counts as longer.
    """
    return -(-(period_us + slack_us) // (requests - burst + 1))


def held_turns(state: ProviderState, now: int) -> tuple[tuple[str, int], ...]:
    """Returns the requests that are out, without those whose callers count as dead."""
    return tuple(turn for turn in state.turns if now < turn[1] <= now + 2 * FARTHEST)


def _wait_us(state: ProviderState, terms: TurnTerms, now: int) -> int:
    if not terms.interval_us:
        return 0
    return max(0, _next_at(state, terms, now) - (terms.burst - 1) * terms.interval_us - now)


def _next_at(state: ProviderState, terms: TurnTerms, now: int) -> int:
    """Returns the first free instant of the schedule; after the clock was set back, as if a burst had just gone out."""
    ahead = terms.burst * terms.interval_us
    return state.next_at if state.next_at <= now + FARTHEST + ahead else now + ahead


def _busy(provider: str, at_once: int) -> Refusal:
    return Refusal(
        "RATE_LIMITED",
        f"{at_once} requests to provider {provider} are out, as many as may be; try again in {BUSY_RETRY_S:g} s.",
        retry_after_s=BUSY_RETRY_S,
        details={"provider": provider, "at_once": at_once},
    )


def _too_fast(provider: str, wait_us: int) -> Refusal:
    """Refuses a turn until those that are taken now have passed. With an earlier time, all refused callers would come
    back again and again for each turn that becomes free."""
    wait_s = wait_us / SECOND
    return Refusal(
        "RATE_LIMITED",
        f"the next free turn of provider {provider} is {wait_s:g} s away, which is longer than a caller waits; "
        f"try again in {wait_s:g} s.",
        retry_after_s=wait_s,
        details={"provider": provider, "wait_ms": -(-wait_us // MILLISECOND)},
    )


def end_turn(ws: Workspace, command: EndTurn) -> TurnEnded:
    """Frees the turn, and tells the breaker how the request went. While the breaker is open, only the probe counts."""
    before = ws.find(ProviderState, command.provider) or ProviderState(command.provider)
    outage = ws.find(ProviderOutage, command.provider)
    failures = before.failures
    if outage is not None and outage.probe == command.turn_id:
        outage = _end_probe(ws, outage, command)
        failures = 0
    elif outage is None and command.is_fault is not None:
        failures = failures + 1 if command.is_fault else 0
        if 0 < command.terms.failures <= failures:
            outage = _open(ws, ProviderOutage(command.provider, ws.now, ws.now, trips=0), command)
            failures = 0
    turns = tuple(turn for turn in before.turns if turn[0] != command.turn_id)
    after = replace(before, turns=turns, failures=failures)
    if after != before:
        ws.put(after)
    if command.took_ms is not None:
        fault = command.is_fault
        outcome: CallOutcome = "abandoned" if fault is None else "failed" if fault else "answered"
        ws.calls.append(EndedCall(command.provider, outcome, command.took_ms))
    return TurnEnded(is_open=outage is not None)


def _end_probe(ws: Workspace, outage: ProviderOutage, command: EndTurn) -> ProviderOutage | None:
    if command.is_fault:
        return _open(ws, outage, command)
    if command.is_fault is None:
        # Nothing is known, so the next turn is the probe.
        return _put(ws, replace(outage, until_at=ws.now, probe=None))
    ws.remove(outage)
    record_of_system(ws, "close_breaker", _target(command), open_s=(ws.now - outage.since_at) / SECOND)
    return None


def _open(ws: Workspace, outage: ProviderOutage, command: EndTurn) -> ProviderOutage:
    """Opens the breaker: for twice as long as the last time, if it did not close in between."""
    open_ms = min(command.terms.open_max_ms, command.terms.open_ms << min(outage.trips, 40))
    record_of_system(
        ws, "open_breaker", _target(command), open_s=open_ms / 1_000, trips=outage.trips + 1, error=command.error
    )
    until_at = ws.now + open_ms * MILLISECOND
    return _put(ws, replace(outage, until_at=until_at, trips=outage.trips + 1, probe=None, error=command.error))


def _put(ws: Workspace, outage: ProviderOutage) -> ProviderOutage:
    ws.put(outage)
    return outage


def _target(command: EndTurn | OpenBreaker | CloseBreaker) -> str:
    return f"provider {command.provider}"


def open_breaker(ws: Workspace, command: OpenBreaker) -> BreakerChanged | Refusal:
    if not 1 <= command.open_ms <= OPEN_MS_MOST:
        most = OPEN_MS_MOST // 1_000
        return Refusal(
            "INVALID_ARGUMENT", f"a breaker is opened for a millisecond up to {most} s; nothing was changed."
        )
    if (refusal := _refuse_unknown(ws, command)) is not None:
        return refusal
    before = ws.find(ProviderOutage, command.provider)
    since_at, trips = (ws.now, 0) if before is None else (before.since_at, before.trips)
    until_at = ws.now + command.open_ms * MILLISECOND
    return BreakerChanged(_put(ws, ProviderOutage(command.provider, since_at, until_at, trips, error=command.reason)))


def close_breaker(ws: Workspace, command: CloseBreaker) -> BreakerChanged | Refusal:
    if (refusal := _refuse_unknown(ws, command)) is not None:
        return refusal
    outage = ws.find(ProviderOutage, command.provider)
    state = ws.find(ProviderState, command.provider)
    if outage is not None:
        ws.remove(outage)
    if state is not None and state.failures:
        ws.put(replace(state, failures=0))
    return BreakerChanged(None, changed=outage is not None)


def _refuse_unknown(ws: Workspace, command: OpenBreaker | CloseBreaker) -> Refusal | None:
    known = (
        command.is_declared
        or ws.find(ProviderState, command.provider) is not None
        or ws.find(ProviderOutage, command.provider) is not None
    )
    return None if known else no_provider(command.provider)


def _needs(wanted: Needs, command: TakeTurn | EndTurn | OpenBreaker | CloseBreaker) -> None:
    wanted.find(ProviderState, command.provider)
    wanted.find(ProviderOutage, command.provider)


def _audit_open(command: OpenBreaker, _: BreakerChanged) -> Audited:
    return Audited("open_breaker", _target(command), {"open_s": command.open_ms / 1_000, "reason": command.reason})


def _audit_close(command: CloseBreaker, _: BreakerChanged) -> Audited:
    return Audited("close_breaker", _target(command))


RULES = (
    Rule(TakeTurn, decide=take_turn, needs=_needs, refuses=("PROVIDER_DOWN", "RATE_LIMITED"), locks_account=False),
    Rule(EndTurn, decide=end_turn, needs=_needs, locks_account=False),
    Rule(
        OpenBreaker,
        decide=open_breaker,
        needs=_needs,
        refuses=("INVALID_ARGUMENT", "NOT_FOUND"),
        audit=_audit_open,
        locks_account=False,
    ),
    Rule(
        CloseBreaker,
        decide=close_breaker,
        needs=_needs,
        refuses=("NOT_FOUND",),
        audit=_audit_close,
        locks_account=False,
    ),
)
