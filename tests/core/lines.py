"""A line of a scenario, taken apart."""

from __future__ import annotations

import re
import shlex

from ficha.core import commands as c

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?)(us|ms|s|m|h|d)")

OPTIONS = frozenset(
    re.findall(
        r"\w+",
        """aborts account after amount apart api_keys as at at_once attempt attempts backoff backoff_max batch before
        body broken burst by content correlation cost credits data declared delay delivered ends entries error every far
        files final held hold inputs jitter joins key keys least limit lost max_wait more most name of partial plans
        poll pool
        priority progress provider provider_cost reason ref reservation reservations result scope session share size
        slots starts submitted target text timeout times told tool total ttl units unsent verdict""",
    )
)
"""The options of commands; the settings take the names of the fields they set."""


def is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text) is not None


def duration(text: str) -> int:
    """Microseconds: `10s`, `1.5h`, `250ms`, `-1us`."""
    match = _DURATION.fullmatch(text)
    assert match is not None, f"{text!r} is not a duration"
    return round(float(match[1]) * _UNITS[match[2]])


class Line:
    """One line, taken apart: the verb, its words, its options and what is expected."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        call, self.arrow, expected = self.text.partition("->")
        self.verb, *rest = shlex.split(call)
        self.words = [word for word in rest if "=" not in word]
        self.options = dict(word.split("=", 1) for word in rest if "=" in word)
        tokens = shlex.split(expected)
        first = next((at for at, token in enumerate(tokens) if "=" in token), len(tokens))
        self.head = " ".join(tokens[:first])
        self.facts = dict(token.split("=", 1) for token in tokens[first:])

    def span(self, name: str) -> int | None:
        """An option that is a duration, in milliseconds."""
        return None if name not in self.options else duration(self.options[name]) // 1_000


def epoch_of(line: Line) -> int:
    return int(line.words[1].removeprefix("e"))


def slots_of(text: str) -> int | None:
    return None if text == "none" else int(text)


def listed(names: str) -> list[str]:
    """`j1,j7` or `j1..j9`."""
    if ".." not in names:
        return names.split(",")
    first, last = names.split("..")
    prefix = first.rstrip("0123456789")
    return [f"{prefix}{n}" for n in range(int(first[len(prefix) :]), int(last[len(prefix) :]) + 1)]


def ending_of(line: Line, word: str) -> c.Ending:
    options = line.options
    cost = int(options["provider_cost"]) if "provider_cost" in options else None
    match word:
        case "completed":
            part = {name: int(options[name]) for name in ("delivered", "of") if name in options}
            return c.Completed(options.get("result", '"done"'), provider_cost=cost, **part)
        case "failed":
            words, is_final = options.get("error", "it broke"), options.get("final") == "yes"
            return c.Failed(words, final=is_final, provider_cost=cost)
        case "retry":
            return c.RetryLater(line.span("after") or 0, options.get("reason"), "unsent" in options)
        case "cancelled":
            return c.CancelledByHandler(options.get("reason", "not wanted"))
        case "accepted":
            return c.AcceptedByProvider(options.get("ref", "ref-1"), line.span("poll"))
        case "interrupted":
            return c.Interrupted(options.get("reason", "the worker stops"), options.get("lost") == "yes")
        case "timed_out":
            return c.TimedOut()
    raise AssertionError(f"a run does not end with {word!r}")
