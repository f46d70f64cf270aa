"""Compares everything that anybody was told with what is in the database: each contradiction as a sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from ficha.core.dataset import State
from ficha.core.invariants import violations
from ficha.core.records import Job, Status
from tests.chaos.application import COST, CREDITS, end_of
from tests.chaos.records import Line


def contradictions(state: State, told: Iterable[Line], *, ended: bool = True) -> list[str]:
    """What is wrong. With `ended`, every job must have come to its end and every key sent must have been answered."""
    lines = list(told)
    return [
        *(line["trouble"] for line in lines if "trouble" in line),
        *violations(state),
        *_submits(state, [line for line in lines if line.get("told") == "submitted"], ended),
        *_claims(state, [line for line in lines if line.get("told") == "claimed"]),
        *_ends(state, [line for line in lines if line.get("told") == "ended"]),
        *_final(state, ended),
    ]


def _submits(state: State, told: list[Line], ended: bool) -> Iterator[str]:
    """Nothing acknowledged is lost, and one key is one job, one charge and one answer."""
    answers: dict[str, set[str]] = defaultdict(set)
    for line in told:
        answers[line["key"]].add(line["job"])
        if line["job"] not in state.jobs:
            yield f"LOST: job {line['job']} of key {line['key']} was acknowledged and is not there"
        if line["cost"] != COST:
            yield f"key {line['key']} was told a cost of {line['cost']}"
    for key, jobs in answers.items():
        if len(jobs) > 1:
            yield f"key {key} was answered with {len(jobs)} jobs"
    kept = {key.key: key.job_id for key in state.keys.values() if key.scope == "submit"}
    for key, jobs in answers.items():
        if kept.get(key) not in jobs:
            yield f"key {key} was acknowledged for {jobs} and stands for {kept.get(key)}"
    if len(set(kept.values())) != len(kept):
        yield "two keys stand for one job"
    if extra := state.jobs.keys() - set(kept.values()):
        yield f"{len(extra)} jobs have no key, so one key made two: {sorted(extra)[:3]}"
    if ended and (unasked := kept.keys() - answers.keys()):
        yield f"{len(unasked)} jobs have keys that nobody was told of: {sorted(unasked)[:3]}"


def _claims(state: State, told: list[Line]) -> Iterator[str]:
    """No two were ever given the same job under the same epoch."""
    given = Counter((line["job"], line["epoch"]) for line in told)
    for (job_id, epoch), times in given.items():
        if times > 1:
            yield f"job {job_id} was given out {times} times with epoch {epoch}"
        if job_id in state.jobs and state.jobs[job_id].epoch < epoch:
            yield f"job {job_id} was given out with epoch {epoch} and now has {state.jobs[job_id].epoch}"


def _ends(state: State, told: list[Line]) -> Iterator[str]:
    """Whoever was told "you ended it" did, with the last epoch, and was the only one."""
    enders = Counter(line["job"] for line in told if line["changed"])
    for job_id, times in enders.items():
        if times > 1:
            yield f"{times} were told that they ended job {job_id}"
    for line in told:
        job = state.jobs.get(line["job"])
        if not line["changed"]:
            continue
        if job is None:
            yield f"LOST: job {line['job']} was ended and is not there"
        elif (job.status, job.epoch, job.refunded) != (line["status"], line["epoch"], line["refunded"]):
            yield (
                f"LOST: job {job.id} was told to be {line['status']} by epoch {line['epoch']} with {line['refunded']} "
                f"refunded, and is {job.status} by {job.epoch} with {job.refunded}"
            )


_OVER: tuple[Status, ...] = ("completed", "failed", "cancelled")


def _final(state: State, ended: bool) -> Iterator[str]:
    """Every job has the end that its number says, and every balance is what follows from that."""
    expected = dict.fromkeys(state.accounts, CREDITS)
    for job in state.jobs.values():
        expected[job.account_id] -= job.charged - job.refunded
        if job.charged != COST:
            yield f"job {job.id} was charged {job.charged}"
        if job.status in _OVER:
            yield from _right_end(job, state)
        elif ended:
            yield f"job {job.id} is {job.status} still, in {job.place}"
    for account in state.accounts.values():
        if account.balance != expected[account.id]:
            yield f"account {account.id} has {account.balance} credits, {expected[account.id]} would be right"
        if ended and (account.active, account.admitted, account.parked) != (0, 0, 0):
            yield f"account {account.id} counts active jobs, and there are none"


def _right_end(job: Job, state: State) -> Iterator[str]:
    if job.id in state.payloads:
        end = end_of(msgspec.json.decode(state.payloads[job.id])["number"])
        if (job.status, job.refunded) != end:
            yield f"job {job.id} is {job.status} with {job.refunded} refunded, and should be {end}: {job.error}"
