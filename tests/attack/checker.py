"""Checks what clients saw over HTTP against itself: each contradiction as a sentence.

It reads nothing but lines that clients wrote down when they were answered: no database, and none of Ficha's code. The
lines are of these kinds:

    {"told": "opened", account, credits}
    {"told": "submitted", account, key, job, cost, is_repeat, end, refund}   end, refund: what must become of the job
    {"told": "cancelled", account, job, status, refunded, changed}
    {"told": "following", account, stream, of}                               of: a job's id, or None for the account
    {"told": "event", account, stream, number, job, kind}
    {"told": "missed", account, stream}
    {"seen": "job", account, job, status, charged, refunded}                 after everything has ended
    {"seen": "history", account, job, numbers, kinds}
    {"seen": "entry", account, number, kind, amount, balance_after, job}
    {"seen": "account", account, balance, active}
    {"trouble": sentence}                                                    what a client already knows to be wrong
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Final

from tests.chaos.records import Line

FINAL: Final = ("completed", "failed", "cancelled")
"""Events that end a job; their names are those of the states."""


def contradictions(lines: Iterable[Line]) -> list[str]:
    """What is wrong with a history whose clients got an answer to everything and whose jobs have all ended."""
    history = History(lines)
    return [
        *history.troubles,
        *_acknowledged_once(history),
        *_ended_as_expected(history),
        *_ledger_exact(history),
        *_refunded_once(history),
        *_histories_whole(history),
        *_streams_whole(history),
        *_nothing_foreign(history),
    ]


class History:
    """The lines, by what they tell."""

    def __init__(self, lines: Iterable[Line]) -> None:
        found = list(lines)
        self.troubles = [line["trouble"] for line in found if "trouble" in line]
        self._lines = found
        self.submitted = self.told("submitted")
        self.acknowledged = {line["job"]: line for line in self.submitted}
        self.seen_jobs = {line["job"]: line for line in self.seen("job")}
        self.histories = {line["job"]: line for line in self.seen("history")}
        self.opened = {line["account"]: line["credits"] for line in self.told("opened")}

    def told(self, what: str) -> list[Line]:
        return [line for line in self._lines if line.get("told") == what]

    def seen(self, what: str) -> list[Line]:
        return [line for line in self._lines if line.get("seen") == what]


def _grouped(lines: Iterable[Line], key: Callable[[Line], Hashable]) -> dict[Hashable, list[Line]]:
    groups: dict[Hashable, list[Line]] = defaultdict(list)
    for line in lines:
        groups[key(line)].append(line)
    return groups


def _acknowledged_once(history: History) -> Iterator[str]:
    """One key is one job, which was new once at most and is there in the end."""
    for (account, key), lines in _grouped(history.submitted, lambda one: (one["account"], one["key"])).items():
        jobs = {line["job"] for line in lines}
        if len(jobs) > 1:
            yield f"key {key} of {account} was answered with {len(jobs)} jobs"
        if (new := sum(not line["is_repeat"] for line in lines)) > 1:
            yield f"key {key} of {account} was answered as new {new} times"
        if len({line["cost"] for line in lines}) > 1:
            yield f"key {key} of {account} was told different costs"
    for job, lines in _grouped(history.submitted, lambda one: one["job"]).items():
        if len({(line["account"], line["key"]) for line in lines}) > 1:
            yield f"job {job} was the answer to two keys"
        if job not in history.seen_jobs:
            yield f"LOST: job {job} was acknowledged and is not there"


def _ended_as_expected(history: History) -> Iterator[str]:
    for job, seen in history.seen_jobs.items():
        told = history.acknowledged.get(job)
        if told is None:
            continue  # `_nothing_foreign` tells.
        if (seen["status"], seen["refunded"]) != (told["end"], told["refund"]):
            yield (
                f"job {job} is {seen['status']} with {seen['refunded']} refunded; "
                f"{told['end']} with {told['refund']} would be right"
            )
        if seen["charged"] != told["cost"]:
            yield f"job {job} was told to cost {told['cost']}, and {seen['charged']} were charged"
    for line in history.told("cancelled"):
        seen = history.seen_jobs.get(line["job"])
        if seen is not None and (line["status"], line["refunded"]) != (seen["status"], seen["refunded"]):
            yield f"job {line['job']} was told to be {line['status']}, and is {seen['status']}"
    for job, lines in _grouped(history.told("cancelled"), lambda one: one["job"]).items():
        if sum(line["changed"] for line in lines) > 1:
            yield f"two callers were told that they cancelled job {job}"


def _ledger_exact(history: History) -> Iterator[str]:
    """A balance is the sum of its entries, and these are one grant, and one charge for each job acknowledged."""
    entries = _grouped(history.seen("entry"), lambda one: one["account"])
    accounts = {line["account"]: line for line in history.seen("account")}
    for account, credits in history.opened.items():
        balance, last = 0, 0
        for entry in sorted(entries.get(account, []), key=lambda one: one["number"]):
            balance += entry["amount"]
            if entry["number"] == last:
                yield f"account {account} has two ledger entries with number {last}"
            if entry["balance_after"] != balance:
                yield f"entry {entry['number']} of {account} says {entry['balance_after']}; the sum is {balance}"
            last = entry["number"]
        granted = sum(entry["amount"] for entry in entries.get(account, []) if entry["kind"] in ("grant", "adjust"))
        if granted != credits:
            yield f"account {account} was opened with {credits}, and its ledger has grants of {granted}"
        if account not in accounts:
            yield f"LOST: account {account} is not there"
        elif accounts[account]["balance"] != balance:
            yield f"account {account} has {accounts[account]['balance']} credits; its entries add up to {balance}"
        elif accounts[account]["active"] != 0:
            yield f"account {account} counts {accounts[account]['active']} active jobs, and all have ended"
    charges = _grouped((one for one in history.seen("entry") if one["kind"] == "charge"), lambda one: one["job"])
    for job, told in history.acknowledged.items():
        amounts = [entry["amount"] for entry in charges.get(job, [])]
        if amounts != ([-told["cost"]] if told["cost"] else []):
            yield f"job {job} costs {told['cost']}, and the ledger has charges of {amounts}"


def _refunded_once(history: History) -> Iterator[str]:
    refunds = _grouped((one for one in history.seen("entry") if one["kind"] == "refund"), lambda one: one["job"])
    for job, told in history.acknowledged.items():
        amounts = [entry["amount"] for entry in refunds.get(job, [])]
        if amounts != ([told["refund"]] if told["refund"] else []):
            yield f"job {job} is to be refunded {told['refund']}, and the ledger has refunds of {amounts}"


def _histories_whole(history: History) -> Iterator[str]:
    """Each job's history is numbered without a gap, begins with its submit and has one end."""
    for job in history.seen_jobs:
        if job not in history.histories:
            yield f"job {job} has no history"
    for job, line in history.histories.items():
        if line["numbers"] != list(range(1, len(line["numbers"]) + 1)):
            yield f"the history of job {job} has the numbers {line['numbers']}"
        if line["kinds"][:1] != ["submitted"]:
            yield f"the history of job {job} does not begin with its submit: {line['kinds']}"
        if sum(kind in FINAL for kind in line["kinds"]) != 1:
            yield f"the history of job {job} has not one end: {line['kinds']}"


def _streams_whole(history: History) -> Iterator[str]:
    """What a stream told, over all its connections, is what the histories tell: all of it, once and in order."""
    for line in history.told("missed"):
        yield f"stream {line['stream']} of {line['account']} was told that it missed events"
    events = _grouped(history.told("event"), lambda one: one["stream"])
    for line in history.told("following"):
        stream, lines = line["stream"], events.pop(line["stream"], [])
        numbers = [one["number"] for one in lines]
        if numbers != sorted(set(numbers)):
            out = next(f"{b} after {a}" for a, b in pairwise(numbers) if b <= a)
            yield f"stream {stream} repeated events or told them out of order: {out}"
        if line["of"] is not None and numbers != list(range(1, len(numbers) + 1)):
            yield f"stream {stream} has a gap: {numbers}"
        told = {job: [one["kind"] for one in some] for job, some in _grouped(lines, lambda one: one["job"]).items()}
        mine = {job for job, one in history.acknowledged.items() if one["account"] == line["account"]}
        for job in sorted(mine if line["of"] is None else {line["of"]}):
            seen = history.histories.get(job, {"kinds": []})["kinds"]
            if told.get(job, []) != seen:
                yield f"stream {stream} told {told.get(job, [])} of job {job}; its history has {seen}"
        for job, times in Counter(one["job"] for one in lines if one["kind"] in FINAL).items():
            if times > 1:
                yield f"stream {stream} told the end of job {job} {times} times"
    for stream in events:
        yield f"stream {stream} told events, and nobody followed it"


def _nothing_foreign(history: History) -> Iterator[str]:
    """Whatever a client saw is about a job that was acknowledged to its own account."""
    for line in [*history.told("event"), *history.seen("job"), *history.seen("history"), *history.seen("entry")]:
        if (job := line["job"]) is None:
            continue
        told = history.acknowledged.get(job)
        if told is None:
            yield f"{line['account']} saw job {job}, which was acknowledged to nobody"
        elif told["account"] != line["account"]:
            yield f"{line['account']} saw job {job} of {told['account']}"
