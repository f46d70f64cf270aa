"""Who may see what: which tools a caller may use, and what they read of a job.

A tool is for users or for the application alone, and for all plans or for some. The application itself, in-process or
with a service key, uses all of them.

A handler's exception names hosts, paths and code; a worker's name is its host and process; a checkpoint's data and a
provider's reference are the tool's own. All that is for operators and workers. The job's owner reads what the tool
wrote for them, and a plain sentence in place of any other error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from .outcomes import Refusal
from .records import Job

Audience = Literal["user", "service"]
"""Whom a tool is for: everybody, or the application alone."""

OPERATORS_ONLY: Final = ("locked_by", "provider_cost", "provider_ref", "resume_data", "submitted_by")
"""What the job's owner never sees of a job: who runs it, at which reference and price, where the tool would resume,
and which API key submitted it."""
OWNERS_TOO: Final = frozenset(
    (
        *("as_job", "attempts", "dead", "delivered", "due_at", "ending", "epoch", "error", "name", "of", "progress"),
        *("recoveries", "refunded", "requeue_of", "result", "text", "user_error"),
    )
)
"""The fields of an event that the job's owner sees too. A field that is not named here is for operators."""
CANCELLED_TOO: Final = OWNERS_TOO | {"reason"}
"""The same of a cancelled job, whose reason was written for its owner."""
INTERNAL_RUN: Final = "The run ended for an internal reason."


def is_for_plan(plans: Sequence[str] | None, plan: str | None) -> bool:
    """Whether a tool for `plans` (None: for all) is for a user on `plan` (None: a user without an account)."""
    return plans is None or plan in plans


def is_for_user(audience: Audience) -> bool:
    """Whether users may use a tool at all. One that they may not use does not exist for them."""
    return audience == "user"


def not_for_plan(tool: str, plans: Sequence[str], plan: str) -> Refusal:
    return Refusal(
        "FORBIDDEN",
        f"tool {tool} is for the plans {', '.join(plans)}, and the account's plan is {plan}; nothing was submitted.",
        details={"plan": plan, "plans": list(plans)},
    )


def error_for_owner(job: Job) -> str | None:
    """What the owner may read of why the job ended."""
    return None if job.error is None else job.user_error or _internal(job.id)


def event_for_owner(job_id: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """What the owner may read of an event's data."""
    shown = CANCELLED_TOO if kind == "cancelled" else OWNERS_TOO
    told = {name: value for name, value in data.items() if name in shown}
    if told.get("error") is not None:
        told["error"] = told.get("user_error") or (_internal(job_id) if kind == "failed" else INTERNAL_RUN)
    return told


def _internal(job_id: str) -> str:
    return f"The job failed for an internal reason; its id is {job_id}."
