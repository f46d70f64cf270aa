"""Parameters that several routes have."""

from __future__ import annotations

from datetime import date
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args

from fastapi import Depends, Header, Query

from ... import validation as arg
from ...core.records import ReservationState
from ...engine.views import RANGES, STORED_TEXTS, JobText
from ...requests import JobNames

Limit = Annotated[int, Query(ge=1, le=1_000, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=2_000, description="The `next` of the previous page.")]
Include = Annotated[
    str | None,
    Query(
        max_length=200,
        description=f"Stored texts to include in the jobs, separated by commas: {', '.join(STORED_TEXTS)}.",
    ),
]
ForAccount = Annotated[
    str | None, Query(min_length=1, max_length=255, description="Which account. For service, admin and viewer keys.")
]
InSession = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=255,
        description="The session of the page that asks. For a job of that session, revokes that the page was left.",
    ),
]
IfNoneMatch = Annotated[str | None, Header(description="The ETag of an earlier answer: 304 if nothing changed.")]
InState = Annotated[
    str | None, Query(max_length=20, description=f"Only those in this state: {', '.join(get_args(ReservationState))}.")
]
Day = Annotated[date | None, Query(description="A day (UTC), such as 2026-03-31.")]
Range = Annotated[str, Query(max_length=10, description=f"The time up to now: {', '.join(RANGES)}.")]
Key = Annotated[
    str | None, Header(alias="Idempotency-Key", description="Your own name for this call: a repeat changes nothing.")
]


def texts(include: str | None) -> tuple[JobText, ...]:
    return arg.job_texts(include.split(",") if include else ())


def _job_names(**given: Any) -> dict[str, Any]:
    return given


_job_names.__signature__ = Signature(  # type: ignore[attr-defined]  # What FastAPI reads the parameters off.
    [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, Query()])
        for name in JobNames.__annotations__
    ]
)
Names = Annotated[JobNames, Depends(_job_names)]
"""A parameter for each of the names that jobs are listed by."""
