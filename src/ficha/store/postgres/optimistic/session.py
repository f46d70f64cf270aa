"""What the layer asks of a database: to look at rows without locking them, and to write if they are unchanged.

PostgreSQL's side of it is `statements.py`. The simulator has another, over its own database.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from msgspec import Struct, field

from ....core.needs import KeyName, Needs
from ....core.records import Account
from ....core.snapshot import Snapshot
from ...base import Committed

Version = str
"""Differs between any two versions of a row, by whomever they were written: in PostgreSQL the transaction (`xmin`)."""
Position = str
"""Where in its table a version of a row lies (`ctid`)."""
Versions = dict[str, Version]
"""Versions of rows, by their keys."""


class CachedAccount(Struct, frozen=True):
    account: Account
    version: Version
    position: Position | None
    """None where it is not known."""


class AccountsSeen(Struct, frozen=True):
    now: int | None
    """The database's clock; None if no account was found."""
    accounts: dict[str, CachedAccount]


class ReadySeen(Struct, frozen=True):
    """All that claims need, in one view."""

    snapshot: Snapshot
    ready: Versions
    pools: Versions


class Unchanged(Struct):
    """What must still be so for a group to be written.

    accounts, leases, ready, pools: rows that must be as they were seen. All but the pools get locked by the check; one
        that somebody else holds counts as changed.
    unused_keys: names under which there must be no key.
    nothing_ready: pools of which no job may be ready.
    now: what the database's clock must show, more or less; None if the time is not the database's.
    """

    accounts: dict[str, CachedAccount] = field(default_factory=dict)
    leases: Versions = field(default_factory=dict)
    ready: Versions = field(default_factory=dict)
    pools: Versions = field(default_factory=dict)
    unused_keys: Collection[KeyName] = ()
    nothing_ready: Collection[str] = ()
    now: int | None = None


class Written(Struct, frozen=True):
    """The version that all rows written by a group have, and where the accounts among them lie."""

    version: Version
    positions: dict[str, Position]


class Session(Protocol):
    """One connection, as the layer uses it."""

    async def look_at_accounts(self, names: Collection[str]) -> AccountsSeen:
        """The accounts that exist, read without locks."""

    async def look_at_ready(self, needs: Needs) -> ReadySeen:
        """What claims with these needs are decided on, read without locks."""

    async def write_if(
        self, unchanged: Unchanged, snapshot: Snapshot, committed: Committed, marker: tuple[str, int]
    ) -> Written | None:
        """Writes and commits a group that was decided on this snapshot, if all is unchanged; else None, and nothing
        was written. Waits for no lock of a row that is checked. Raises Unavailable or CommitUnknown."""
