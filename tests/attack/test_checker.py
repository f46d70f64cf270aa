"""The checker itself: a true history has no contradictions, and whatever could go wrong it says."""

import copy
from collections.abc import Callable

import pytest

from tests.attack.checker import contradictions
from tests.chaos.records import Line

LIVES = {
    "j1": ("ana", "paint", 3, "completed", 0, ["submitted", "claimed", "started", "completed"]),
    "j2": ("ana", "broken", 4, "failed", 4, ["submitted", "claimed", "started", "failed"]),
    "j3": ("bo", "upscale", 5, "cancelled", 5, ["submitted", "cancelled"]),
}
"""Job: account, key, cost, end, refund and history."""


def truth() -> list[Line]:
    """What two clients saw of three jobs."""
    lines: list[Line] = [{"told": "opened", "account": name, "credits": 100} for name in ("ana", "bo")]
    place = 0
    ledger: dict[str, list[Line]] = {"ana": [], "bo": []}

    def book(account: str, kind: str, amount: int, job: str | None) -> None:
        entries = ledger[account]
        balance = sum(entry["amount"] for entry in entries) + amount
        entries.append(
            {"seen": "entry", "account": account, "number": len(entries) + 1, "kind": kind, "amount": amount,
             "balance_after": balance, "job": job}
        )  # fmt: skip

    for name in ledger:
        book(name, "grant", 100, None)
        lines.append({"told": "following", "account": name, "stream": f"of {name}", "of": None})
    for job, (account, key, cost, end, refund, kinds) in LIVES.items():
        line = {"told": "submitted", "account": account, "key": key, "job": job, "cost": cost, "end": end}
        lines.append({**line, "refund": refund, "is_repeat": False})
        lines.append({**line, "refund": refund, "is_repeat": True})
        lines.append({"told": "following", "account": account, "stream": f"of {job}", "of": job})
        for number, kind in enumerate(kinds, 1):
            place += 1
            event = {"told": "event", "account": account, "job": job, "kind": kind}
            lines.append({**event, "stream": f"of {account}", "number": place})
            lines.append({**event, "stream": f"of {job}", "number": number})
        if end == "cancelled":
            told = {"told": "cancelled", "account": account, "job": job, "status": end, "refunded": refund}
            lines.append({**told, "changed": True})
        book(account, "charge", -cost, job)
        if refund:
            book(account, "refund", refund, job)
        seen = {"account": account, "job": job}
        lines.append({"seen": "job", **seen, "status": end, "charged": cost, "refunded": refund})
        lines.append({"seen": "history", **seen, "numbers": list(range(1, len(kinds) + 1)), "kinds": kinds})
    for name, entries in ledger.items():
        lines += entries
        lines.append({"seen": "account", "account": name, "balance": entries[-1]["balance_after"], "active": 0})
    return copy.deepcopy(lines)


Lie = Callable[[list[Line]], object]


def first(lines: list[Line], **like: object) -> Line:
    return next(line for line in lines if like.items() <= line.items())


def change(changes: Line, **like: object) -> Lie:
    return lambda lines: first(lines, **like).update(changes)


def repeat(changes: Line, **like: object) -> Lie:
    """A second line beside the first, changed a little."""
    return lambda lines: lines.append({**first(lines, **like), **changes})


def leave_out(**like: object) -> Lie:
    return lambda lines: lines.remove(first(lines, **like))


def swap_two_events(lines: list[Line]) -> None:
    one, other = (first(lines, told="event", stream="of j1", number=number) for number in (2, 3))
    at, to = lines.index(one), lines.index(other)
    lines[at], lines[to] = other, one


def refund_twice(lines: list[Line]) -> None:
    """Everywhere, so that the balance is right."""
    entry = first(lines, seen="entry", kind="refund", job="j3")
    lines.append({**entry, "number": entry["number"] + 1, "balance_after": entry["balance_after"] + 5})
    first(lines, seen="account", account="bo")["balance"] += 5


def charge_twice(lines: list[Line]) -> None:
    entry = first(lines, seen="entry", kind="refund", job="j3")
    lines.append(
        {**entry, "number": entry["number"] + 1, "balance_after": entry["balance_after"] - 5, "amount": -5}
        | {"kind": "charge"}
    )
    first(lines, seen="account", account="bo")["balance"] -= 5


LIES: list[tuple[str, Lie, str]] = [
    ("a job is lost", leave_out(seen="job", job="j1"), "LOST: job j1"),
    ("a key makes two jobs", repeat({"job": "j2"}, told="submitted", job="j1"), "was answered with 2 jobs"),
    ("a key is new twice", repeat({}, told="submitted", job="j1"), "as new 2 times"),
    ("two keys get one job", repeat({"key": "other"}, told="submitted", job="j1"), "the answer to two keys"),
    ("a repeat tells another price", repeat({"cost": 9}, told="submitted", job="j1"), "different costs"),
    ("an end is undone", change({"status": "running"}, seen="job", job="j1"), "is running with 0 refunded"),
    ("a refund is forgotten", change({"refunded": 0}, seen="job", job="j2"), "with 0 refunded"),
    ("a job is charged otherwise", change({"charged": 6}, seen="job", job="j1"), "6 were charged"),
    ("a job is charged twice", charge_twice, "charges of [-5, -5]"),
    ("a job is never charged", leave_out(seen="entry", kind="charge", job="j1"), "charges of []"),
    ("a refund is paid twice", refund_twice, "refunds of [5, 5]"),
    ("a refund is not in the ledger", leave_out(seen="entry", kind="refund", job="j2"), "refunds of []"),
    ("credits vanish", change({"balance": 96}, seen="account", account="ana"), "add up to 97"),
    ("a balance after is wrong", change({"balance_after": 1}, seen="entry", job="j1"), "says 1; the sum is 97"),
    ("a grant is lost", leave_out(seen="entry", kind="grant", account="bo"), "grants of 0"),
    ("a number is given twice", change({"number": 1}, seen="entry", job="j3", kind="charge"), "two ledger entries"),
    ("an account is lost", leave_out(seen="account", account="bo"), "LOST: account bo"),
    ("an account counts a job", change({"active": 1}, seen="account", account="bo"), "counts 1 active jobs"),
    ("a cancel tells otherwise", change({"status": "failed"}, told="cancelled"), "was told to be failed"),
    ("two callers cancel", repeat({}, told="cancelled"), "two callers were told"),
    ("a history has a gap", change({"numbers": [1, 2, 4, 5]}, seen="history", job="j1"), "numbers [1, 2, 4, 5]"),
    ("a history has no begin", change({"kinds": ["claimed", "completed"]}, seen="history"), "not begin with"),
    ("a job ends twice", change({"kinds": ["submitted", "failed", "completed"]}, seen="history"), "not one end"),
    ("a history is missing", leave_out(seen="history", job="j3"), "has no history"),
    ("a job's stream has a gap", leave_out(told="event", stream="of j1", number=2), "of j1 has a gap"),
    ("a stream ends early", leave_out(told="event", stream="of j1", number=4), "told ['submitted', 'claimed', 'sta"),
    ("an account's stream has a gap", leave_out(told="event", stream="of ana", number=2), "stream of ana told"),
    ("a stream is nobody's", leave_out(told="following", stream="of j1"), "nobody followed it"),
    ("a stream repeats an event", repeat({}, told="event", stream="of j1", number=4), "repeated events"),
    ("an end is told twice", repeat({"number": 99}, told="event", stream="of ana", kind="completed"), "j1 2 times"),
    ("a stream is out of order", swap_two_events, "out of order: 2 after 3"),
    ("a stream missed events", repeat({"told": "missed"}, told="event", stream="of ana"), "it missed events"),
    ("a stream is foreign", repeat({"job": "j3", "number": 99}, told="event", stream="of ana"), "ana saw job j3 of bo"),
    ("a list has a foreign job", change({"account": "ana"}, seen="job", job="j3"), "ana saw job j3 of bo"),
    ("a ledger has a foreign job", change({"account": "ana"}, seen="entry", kind="refund", job="j3"), "ana saw job j3"),
    ("a job is nobody's", repeat({"job": "j9"}, seen="job", job="j1"), "acknowledged to nobody"),
    ("a client is in trouble", lambda lines: lines.append({"trouble": "500 for a submit"}), "500 for a submit"),
]  # fmt: skip


def test_a_true_history_has_no_contradictions() -> None:
    assert contradictions(truth()) == []


@pytest.mark.parametrize("stream", ["of ana", "of j1"])
def test_a_silent_stream_is_found(stream: str) -> None:
    lines = [
        line for line in truth() if line["told" if "told" in line else "seen"] != "event" or line["stream"] != stream
    ]
    assert any(f"stream {stream} told [] of job j1" in sentence for sentence in contradictions(lines))


@pytest.mark.parametrize(("lie", "words"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_a_lie_is_found(lie: Lie, words: str) -> None:
    lines = truth()
    lie(lines)
    assert any(words in sentence for sentence in contradictions(lines)), contradictions(lines)
