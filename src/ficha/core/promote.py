"""When an account is below its limit again, its next parked jobs become ready, best rank first."""

from __future__ import annotations

from msgspec.structs import replace

from .new_jobs import has_room
from .policy import aged_rank
from .records import Ready
from .rule import PROMOTIONS_PER_SLOT
from .workspace import Workspace


def promote(ws: Workspace, account_id: str, at_most: int = PROMOTIONS_PER_SLOT) -> None:
    """Makes parked jobs ready while the plan has room for them."""
    for _ in range(at_most):
        account = ws.account(account_id)
        assert account is not None
        if account.parked == 0 or not has_room(account, plan := ws.plan(account)):
            return
        job = ws.claimable.next_parked(account_id)
        if job is None:
            # Only after a raised limit can there be room for more jobs than were loaded; later ends promote the rest.
            return
        ws.put_job(replace(job, place=Ready(*aged_rank(job, plan, ws.now))))
