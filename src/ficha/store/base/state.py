"""Questions for rows as the rules see them."""

from __future__ import annotations

from ...core.dataset import State
from ...core.needs import Needs
from ...core.snapshot import Snapshot
from .query import Query


class GetSnapshot(Query[Snapshot], frozen=True):
    """The rows that a group with these needs would be decided on now. Nothing is locked, so they may change at once."""

    needs: Needs


class GetState(Query[State], frozen=True):
    """The accounts after `after` (by id, at most `limit`) with everything they own: jobs, steps, keys, reservations,
    batches, entries, API keys, and the contents that their jobs answer; also all pools, leaders, workers, tallies and
    API keys that belong to no account; rollups, of which there are thousands, with the first part only. Payloads,
    results, steps and events only with `texts`. Never audit lines, which belong to no account."""

    after: str | None = None
    limit: int = 1_000_000
    texts: bool = False
