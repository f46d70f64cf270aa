"""What the layer needs from a database: to read rows, mostly without locks, and to write only if they are unchanged.

`statements.py` implements it for PostgreSQL; the simulator implements it for its own database.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct, field

from ....core.needs import KeyName, Needs
from ....core.records import Account, KeyedName
from ....core.snapshot import Snapshot
from ...base import Committed

Version = str
"""Identifies a version of a row, whoever wrote it: in PostgreSQL its transaction (`xmin`) and the server."""
Position = str
"""The place of a row version in its table (`ctid`)."""
Versions = dict[str, Version]
"""Versions of rows, by their keys."""


class CachedAccount(Struct, frozen=True):
    account: Account
    version: Version
    position: Position | None
    """None if it is not known."""


class AccountsSeen(Struct, frozen=True):
    now: int | None
    """The database's clock; None if no account was found, or if locks were waited for."""
    accounts: dict[str, CachedAccount]


class ReadySeen(Struct, frozen=True):
    """All that claims need, in one view."""

    snapshot: Snapshot
    ready: Versions
    pools: Versions


class Unchanged(Struct):
    """The conditions under which a group is written.

    accounts, leases, ready, pools: rows that must have this version. The check locks all but the pools; a row that
        another transaction has locked counts as changed.
    unused_keys, no_brakes: keys and brakes that must not exist.
    nothing_ready: pools that must have no ready job.
    now: the time that the database's clock must show, roughly; None if the time is not the database's.
    """

    accounts: dict[str, CachedAccount] = field(default_factory=dict)
    leases: Versions = field(default_factory=dict)
    ready: Versions = field(default_factory=dict)
    pools: Versions = field(default_factory=dict)
    unused_keys: Collection[KeyName] = ()
    no_brakes: Collection[KeyedName] = ()
    nothing_ready: Collection[str] = ()
    now: int | None = None


class Written(Struct, frozen=True):
    """The version of all rows that a group wrote, and the positions of the accounts among them."""

    version: Version
    positions: dict[str, Position]


class RowAccess(Protocol):
    """One connection, as the layer uses it."""

    async def look_at_accounts(self, names: Sequence[str], *, locks: bool) -> AccountsSeen:
        """Reads those of the accounts that exist. With `locks`, waits for others that have locked them, and keeps them
        locked until the group is written or undone."""

    async def look_at_ready(self, needs: Needs) -> ReadySeen:
        """Reads what claims with these needs are decided on, without locks."""

    async def write_if(
        self, unchanged: Unchanged, snapshot: Snapshot, committed: Committed, marker: tuple[str, int]
    ) -> Written | None:
        """Writes and commits a group that was decided on this snapshot, if everything is unchanged; else writes nothing
        and returns None. Waits for no lock on a checked row. Raises Unavailable or CommitUnknown."""

    async def undo(self) -> None:
        """Gives up the locks of a group that was not written."""
