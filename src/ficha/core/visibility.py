"""Who may read what of an error. A handler's exception names hosts, paths and code: that is for operators. The job's
owner reads what the tool wrote for them, and else a plain sentence."""

from __future__ import annotations

from typing import Any, Final

from .records import Job

OPERATORS_ONLY: Final = ("reason", "traceback")
"""Fields of an event that the job's owner never sees; a cancelled job's reason was written for its owner."""
INTERNAL_RUN: Final = "The run ended for an internal reason."


def error_for_owner(job: Job) -> str | None:
    """What the owner may read of why the job ended."""
    return None if job.error is None else job.user_error or _internal(job.id)


def event_for_owner(job_id: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """What the owner may read of an event's data."""
    if kind == "cancelled":
        return data
    told = {name: value for name, value in data.items() if name not in OPERATORS_ONLY}
    if told.get("error") is not None:
        told["error"] = told.get("user_error") or (_internal(job_id) if kind == "failed" else INTERNAL_RUN)
    return told


def _internal(job_id: str) -> str:
    return f"The job failed for an internal reason; its id is {job_id}."
