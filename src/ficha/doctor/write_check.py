"""Whether a submit would be accepted now: the small committed write that servers try for `/readyz`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..engine.write_probe import WriteProbe
from .database import Looking
from .findings import Finding
from .looked_over import LookedOver


async def writes(seen: LookedOver[Looking]) -> AsyncIterator[Finding]:
    async with seen.app.separate_operations(sweeps=False, creates=False) as operations:
        problem = await WriteProbe(operations.engine).problem()
    if problem is None:
        return
    if lacks_right(problem):
        raise problem
    yield Finding(
        "writes",
        "WRITES_FAIL",
        "critical",
        f"A small write was not committed: {problem}.",
        "Until that is mended no submit is accepted and no job can end; servers answer 503 to /readyz.",
    )


def lacks_right(error: BaseException) -> bool:
    """Whether PostgreSQL refused for want of a right."""
    return getattr(error.__cause__, "sqlstate", None) == "42501"
