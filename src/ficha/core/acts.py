"""Which acts an operator may do to a job now: those that would change something under the rules.

Each act is decided on a snapshot, and its changes are discarded. So the rule itself decides what is offered: there is
no second condition that could disagree with it.
"""

from __future__ import annotations

from typing import Final, Literal

from .commands import CancelJob, Command, Discard, Recover, RefundJob, Requeue
from .decide import decide
from .policy import Policy
from .snapshot import Snapshot

Act = Literal["cancel", "requeue", "discard", "recover", "refund"]
_NO_ID: Final = "00000000-0000-0000-0000-000000000000"
"""A placeholder for the id of a new job, which is never made."""


def act_commands(job_id: str) -> dict[Act, Command]:
    """The command of each act."""
    return {
        "cancel": CancelJob(job_id),
        "requeue": Requeue(job_id, _NO_ID),
        "discard": Discard(job_id),
        "recover": Recover(job_id),
        "refund": RefundJob(job_id, ""),
    }


def allowed_acts(snapshot: Snapshot, job_id: str, policy: Policy) -> tuple[Act, ...]:
    """Returns the acts that would change something, decided on the rows that their commands need."""
    return tuple(act for act, command in act_commands(job_id).items() if decide(snapshot, [command], policy)[0])
