"""Repairs what needs no decision of a person: counters that disagree with their rows."""

from __future__ import annotations

from ..app import Ficha
from .counter_check import miscounted
from .database import looking_at


async def repair(app: Ficha, actor: str) -> dict[str, dict[str, int]]:
    """Recounts every account whose counters are wrong, each in a transaction of its own with an audit line in the name
    of `actor`. Returns what was added to each wrong counter, by account."""
    async with looking_at(app.database, app.schema) as database:
        wrong = await miscounted(database)
    if not wrong:
        return {}
    async with app.separate_operations(sweeps=False, creates=False) as operations:
        acting = operations.acting(actor)
        return {account: await acting.recount(account) for account in wrong}
