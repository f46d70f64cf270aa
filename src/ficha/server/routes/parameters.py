"""Parameters that several routes have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query

Limit = Annotated[int, Query(ge=1, le=1_000, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=2_000, description="The `next` of the page before.")]
ForAccount = Annotated[
    str | None, Query(min_length=1, max_length=255, description="Whose. For service and admin keys.")
]
Key = Annotated[
    str | None, Header(alias="Idempotency-Key", description="Your own name for this call: a repeat changes nothing.")
]
