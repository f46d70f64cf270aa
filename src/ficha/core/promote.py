"""Freed concurrency goes to the account's next parked jobs, best rank first."""

from __future__ import annotations

from msgspec.structs import replace

from .policy import aged_rank
from .records import Ready
from .rule import PROMOTIONS_PER_SLOT
from .submit import has_room
from .workspace import Workspace


def promote(ws: Workspace, account_id: str, at_most: int = PROMOTIONS_PER_SLOT) -> None:
    """Makes parked jobs ready while the plan has room for them."""
    for _ in range(at_most):
        account = ws.account(account_id)
        assert account is not None
        if account.parked == 0 or not has_room(account, plan := ws.plan(account)):
            return
        job = ws.next_parked(account_id)
        if job is None:
            # Only where a limit was raised can there be room for more than was loaded; later endings catch up.
            return
        ws.put_job(replace(job, place=Ready(*aged_rank(job, plan, ws.now))))
