"""The protocol: what a store does, the calls that it makes, and what a transaction gives back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Set
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct

from ...core.clock_check import ClockLook
from ...core.needs import Needs
from ...core.outcomes import Outcome
from ...core.snapshot import Changes, Snapshot
from .query import Query, T

Clock = Callable[[], int]
"""Whole microseconds since 1970."""
Decision = tuple[Changes, list[Outcome]]
Decide = Callable[[Snapshot], Decision]
"""Decides the commands of a commit group on the rows that were loaded for them."""
Hints = Callable[[Changes], Collection[str]]
"""Returns the names, as `notify` takes them, to send together with the commit."""


ASKED_MS: Final = 1_800_000
COMMITS_KEPT_MS_MIN: Final = 2 * ASKED_MS
"""The shortest time for which commits may be kept: twice as long as `committed` may be asked about one."""
COMMITS_PRUNED: Final = 20_000
"""How many commits one call of `tidy` deletes, at most."""


def no_hints(changes: Changes) -> Collection[str]:
    return ()


class Committed(Struct, frozen=True):
    """What a transaction wrote: the changes, the outcome of each command, and the hints sent with the commit.

    If there was nothing to change, the changes are empty.
    """

    changes: Changes
    outcomes: list[Outcome]
    hints: Collection[str] = ()


def wall_clock() -> int:
    """The time of this machine."""
    return time.time_ns() // 1_000


class Reader(Protocol):
    """Answers queries."""

    async def read(self, query: Query[T]) -> T:
        """Answers a query from committed rows, in one consistent view."""


class Store(Reader, Protocol):
    """Loads and writes rows.

    committers: how many transactions may run side by side; 1 where the database has a single writer.
    """

    committers: int

    async def open(self) -> None:
        """Connects. Raises SchemaMismatch unless the schema is the one this release works with."""

    async def close(self) -> None:
        """Ends every connection. A second call does nothing."""

    async def transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints = no_hints
    ) -> Committed:
        """One transaction: load what `needs` names, call `decide` with it, write the changes and the marker, commit.

        `committer` is a UUID that only one caller at a time uses; `number` rises with each of its transactions.
        Together they mark the transaction, in the row of `commits` that holds its events. `decide` may run on another
        thread, and runs again if the store has to load again. A transaction needs no marker if it changes nothing or
        only renews a leader, a worker's registration or a key's last use: it may simply be run again.
        Raises Transient, Unavailable or CommitUnknown. An exception of `decide` passes through; then nothing was
        written.
        A store that can send hints together with the commit, which is sooner than after it, calls `hints` on the
        caller's thread before each write; the last answer counts.
        """

    async def committed(self, committer: str, number: int) -> bool:
        """Whether that transaction was committed. Waits for a commit that is still under way.

        Raises CommitUnknown if it began longer than `ASKED_MS` ago: its row may have been deleted.
        """

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide, hints: Hints) -> Committed:
        """Does the same inside the caller's own transaction; only where the database is shared with the caller.

        The hints go out when the caller commits, and this process receives them as well.
        """

    async def tidy(self, commits_kept_ms: int) -> bool:
        """Deletes commits older than `commits_kept_ms`: at most `COMMITS_PRUNED` of them, and never the newest. Returns
        whether it stopped at that limit, so that more may be left.

        Usually one process calls it, now and then; several may do so at once.
        """

    async def scrub(self) -> bool:
        """Removes what rows that were deleted left behind in files of this store's own. Returns False if that could not
        be done now. A database server cleans its files up by itself."""

    async def notify(self, names: Iterable[str]) -> None:
        """Hints to other processes that these pools have ready jobs. A name that begins with a control character is no
        pool and starts no claim. Hints may be lost."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Calls `heard(name)` for each hint from another process, until the store is closed or this is cancelled. The
        name is empty if the store does not know what changed. May do nothing."""


@runtime_checkable
class ClaimsWithSubmits(Protocol):
    """A store that may keep a claim from joining the transaction of a submit. Any other store always lets it join."""

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        """Whether a group that submits jobs to these pools can also claim them without taking longer."""


@runtime_checkable
class HasOwnClocks(Protocol):
    """A store whose processes go by a clock of their own each, and not by the database's."""

    async def look_at_clock(self, after: int | None) -> ClockLook | None:
        """What this process's clock and the commits after that number show; `after` is None at the first look. None if
        the clock is one that was given to the store."""


@runtime_checkable
class HasSchema(Protocol):
    """A store whose tables others may migrate meanwhile."""

    async def check_schema(self) -> None:
        """Raises SchemaMismatch unless the schema is still one that this release works with."""
