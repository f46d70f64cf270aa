"""What a submit would lead to, decided by how many jobs of each kind it asks for, before they are made.

A quote is such a preview. A large submit whose preview is a refusal is refused at once. The jobs of any other submit
are made, and `submit.py` decides them in their transaction.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec.structs import replace

from .commands import NewJob, Submit
from .ledger import charged
from .new_jobs import counted, due_at_of, first_boost, new_job
from .outcomes import Refusal, SubmitPreview
from .policy import Policy
from .quota import quota_warnings
from .records import Job
from .refusals import account_closed, no_account, no_plan
from .snapshot import Snapshot
from .split_requests import requests_in
from .submit import is_remembered, served_by_content
from .submit_limits import refuse_limits, spending_warning
from .workspace import Workspace


def preview(
    snapshot: Snapshot, command: Submit, counts: Sequence[int], policy: Policy, *, unknown: int = 0
) -> SubmitPreview | Refusal:
    """Returns what a submit would lead to. The snapshot has the rows that the submit needs.

    command: the submit, with one job of each kind, such as one tool with one payload.
    counts: how many jobs there are of each kind.
    unknown: further jobs that an earlier result may answer, free of charge: only the hourly limit counts them. They are
        not parts of a split request.
    """
    assert len(command.jobs) == len(counts)
    ws = Workspace(snapshot, policy)
    account = ws.account(command.account_id)
    if account is None:
        return no_account(command.account_id)
    if (closed := account_closed(account)) is not None:
        return closed
    if command.key is not None:
        key = ws.key((account.id, "submit", command.key))
        if key is not None and is_remembered(key, ws.now):
            # A repeat is answered whatever the limits are.
            return SubmitPreview(None, key.jobs, key.cost, account.balance, account.balance)
    plan = ws.plan(account)
    if plan is None:
        return no_plan(account.plan, policy)
    kinds, served = served_by_content(ws, command)
    jobs = sum(counts) + unknown
    requests = _requests(kinds, counts) + unknown
    queued = requests - unknown if not served else _requests(kinds, counts, served)
    cost = sum(kind.spec.cost * count for kind, count in zip(kinds, counts, strict=True))
    refusal = refuse_limits(ws, command, account, plan, kinds, served, requests, queued, cost)
    if refusal is not None:
        return refusal
    first: Job | None = None
    if kinds:
        number, boost, due_at = account.submitted + 1, first_boost(ws, account), due_at_of(command, ws.now)
        is_served = kinds[0].id in served
        first = new_job(ws.now, account, plan, command, kinds[0], number, boost, due_at, is_served=is_served)
    after = counted(charged(account, cost, ws.now), jobs, requests, account.latest_job, ws.now)
    # The slot of a reservation becomes that of a job.
    after = replace(after, active=account.active + queued - (command.reservation_id is not None))
    return SubmitPreview(
        first,
        jobs,
        cost,
        account.balance,
        after.balance,
        quota_warnings(ws, after, plan, counts_parts=command.counts_parts),
        spending_warning(after, plan, ws.now),
    )


def _requests(kinds: Sequence[NewJob], counts: Sequence[int], without: Container[str] = ()) -> int:
    """How many requests so many jobs of these kinds are, but for the kinds with these ids."""
    counted = [(kind, count) for kind, count in zip(kinds, counts, strict=True) if kind.id not in without]
    alone = sum(count for kind, count in counted if kind.spec.part_of is None)
    return alone + requests_in(kind for kind, _ in counted if kind.spec.part_of is not None)
