"""Turns an answer that is not a success into what the caller gets: the refusal in it, or an error about the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from ..core.codes import Code
from ..core.outcomes import Refusal
from ..errors import Refused
from ..outbound import Answer
from .errors import BadAnswer, ServerError, Unreachable

_OF_EVERY_PROBLEM: Final = frozenset(
    {
        *("type", "title", "status", "detail", "instance", "code", "retryable", "retry_after_s", "correlation_id"),
        *("success", "error"),
    }
)
_AWAY: Final = frozenset({502, 503, 504})


def trouble_of(answer: Answer, server: str) -> Refused | ServerError:
    """What to raise for an answer that is no success."""
    problem = _problem(answer)
    if problem is not None:
        return refusal_of(problem)
    if answer.status in _AWAY:
        return Unreachable(
            f"the server at {server} is away ({answer.status}); try again later",
            reached=True,
            retry_after_s=_seconds(answer.headers.get("retry-after")),
        )
    if 300 <= answer.status < 400:
        # Not followed: the server there would get the token.
        target = answer.headers.get("location", "nowhere")
        return BadAnswer(f"{server} leads elsewhere ({target}); if that is the server, name it as the URL")
    return BadAnswer(f"{server} answered {answer.status}, but not as a Ficha server does; check the URL")


def _problem(answer: Answer) -> dict[str, Any] | None:
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return None
    try:
        problem = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        return None
    return problem if isinstance(problem, dict) and isinstance(problem.get("code"), str) else None


def refusal_of(problem: Mapping[str, Any]) -> Refused:
    """The refusal that a problem describes."""
    refused = Refused.of(
        Refusal(
            cast(Code, problem["code"]),
            str(problem.get("detail") or problem.get("title")),
            problem.get("retry_after_s"),
            {name: value for name, value in problem.items() if name not in _OF_EVERY_PROBLEM},
        )
    )
    # Taken from the server, since the problem may have a code that only HTTP has.
    refused.retryable = problem.get("retryable") is True
    if problem.get("correlation_id"):
        refused.add_note(f"correlation id: {problem['correlation_id']}")
    return refused


def _seconds(text: str | None) -> float | None:
    """A `Retry-After` in seconds; None if it is a date, which no Ficha server sends."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None
