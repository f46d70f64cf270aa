"""The SQLite store: one thread that writes, one that reads, and the steps of a transaction."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import apsw

from ...core.clock_check import ClockLook
from ...core.needs import Needs
from ...core.policy import MILLISECOND
from ...core.records import AnyKeyed, Leader
from ...core.snapshot import Changes
from .. import base, migrations
from ..base import Clock, Committed, CommitUnknown, Decide, Hints, Query, StoreError, Unavailable, no_hints, wall_clock
from ..commits import commit_rows
from ..migrations import DEFAULT_WAIT, LockWait, Migration, SchemaState, Tell, quiet
from ..sql.tables import COMMITS
from .connection import ConnectionThread, Patience, connect, refuse_old_library
from .dialect import insert
from .filesystem import refuse_network
from .idle_claims import Looks, journal_marks
from .load import load
from .migrating import migrator
from .reads import ONE_STATEMENT, answer
from .row_cache import SqliteRowCache
from .wal import Journal
from .write import write

T = TypeVar("T")

SIGNS_PAGES = 1_000
"""How many pages renewed leaders, workers' heartbeats and uses of API keys alone may leave in the WAL."""
WATCH_S = 0.05
"""How often the WAL is checked for commits of other processes."""
COMMIT = insert(COMMITS)
MARKED = "SELECT 1 FROM commits WHERE committer = ? AND sequence = ? ORDER BY number DESC LIMIT 1"
NEWEST = "SELECT number, committer, at FROM commits WHERE number > ? ORDER BY number DESC LIMIT 1000"
OVER = "SELECT EXISTS (SELECT 1 FROM leases WHERE expires_at <= ?1 OR deadline_at <= ?1)"
PRUNE = (
    "DELETE FROM commits WHERE at < ?1 AND number IN (SELECT number FROM commits ORDER BY number LIMIT ?2) "
    "AND number < (SELECT max(number) FROM commits)"
)


class SqliteStore:
    """Keeps everything in the file `path`, which several processes of one machine may share.

    clock: the time, in microseconds since 1970. Defaults to the system's clock.
    busy_timeout_s: how long to wait for another process's transaction. Defaults to 30 s.
    A process that forks keeps its own store; the child opens another.
    """

    committers = 1

    def __init__(
        self, path: str | os.PathLike[str], *, clock: Clock | None = None, busy_timeout_s: float = 30.0
    ) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise StoreError(
                "SQLite in memory cannot be shared by a reader and a writer: name a file, or use ficha's memory store"
            )
        self.migrations = migrations.load(__package__)
        self.bookkeeping = migrations.BOOKKEEPING
        self._path = os.path.abspath(path)
        self._clock = clock or wall_clock
        self._is_clock_given = clock is not None
        self._busy_timeout_s = busy_timeout_s
        self._patience = Patience(busy_timeout_s)
        self._writer: ConnectionThread | None = None
        self._reader: ConnectionThread | None = None
        self._journal = Journal(self._path, self._patience)
        self._unmarked: dict[str, int] = {}
        self._begun: dict[str, int] = {}
        """When each committer's last transaction began."""
        self._worked = 0
        self._is_unsettled = False
        self._remembered = SqliteRowCache()
        self._looks = Looks(self._path)

    async def state(self) -> SchemaState:
        return await asyncio.to_thread(migrator.state, self._path, Patience(self._busy_timeout_s))

    async def version(self) -> int:
        return (await self.state()).version

    async def migrate(
        self, target: int | None = None, tell: Tell = quiet, lock_wait: LockWait = DEFAULT_WAIT
    ) -> list[Migration]:
        patience = Patience(self._busy_timeout_s)
        return await asyncio.to_thread(migrator.migrate, self._path, self.migrations, target, patience)

    async def open(self) -> None:
        if self._writer is not None:
            return
        refuse_old_library()
        refuse_network(self._path)
        if not os.path.exists(self._path):  # noqa: ASYNC240 (one look at a local disk)
            raise base.SchemaMismatch(f"there is no database {self._path} yet: run `ficha migrate up`")
        self._writer = ConnectionThread("ficha-sqlite-writer", self._path, self._connect_writer)
        self._reader = ConnectionThread("ficha-sqlite-reader", self._path, self._connect_reader)
        self._journal.open(self._writer, self._reader, self._connect_reader)
        try:
            await self._writer.call(_nothing)
            await self._reader.call(_nothing)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        writer, reader = self._writer, self._reader
        self._writer = self._reader = None
        await self._journal.close()
        # The writer is closed last: the last connection empties the WAL.
        if reader is not None:
            await reader.close()
        if writer is not None:
            await writer.close(self._journal.empty)

    async def transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints = no_hints
    ) -> Committed:
        work = partial(self._transact, committer, number, needs, decide)
        committed, leaves_pages = await self._opened(self._writer).call(work)
        if leaves_pages:
            self._journal.see_to()
        return committed

    async def committed(self, committer: str, number: int) -> bool:
        # On the writer's thread, and so after any commit that is still under way.
        return await self._opened(self._writer).call(partial(self._committed, committer, number))

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide, hints: Hints) -> Committed:
        raise StoreError(base.NOT_SHARED)

    async def read(self, query: Query[T]) -> T:
        return await self._opened(self._reader).call(partial(self._read, query))

    async def look_at_clock(self, after: int | None) -> ClockLook | None:
        if self._is_clock_given:
            return None
        return await self._opened(self._reader).call(partial(self._look_at_clock, after))

    async def check_schema(self) -> None:
        await self._opened(self._reader).call(self._refuse_unfit)

    async def tidy(self, commits_kept_ms: int) -> bool:
        pruned = await self._opened(self._writer).call(partial(self._prune, commits_kept_ms))
        self._journal.see_to()
        return pruned == base.COMMITS_PRUNED

    async def scrub(self) -> bool:
        """Deleted rows are overwritten in the database file; what the WAL has of them goes with the WAL."""
        await self._opened(self._writer).call(partial(self._journal.empty, wait_s=self._busy_timeout_s))
        return not self._journal.pages

    async def notify(self, names: Iterable[str]) -> None:
        """Other processes see the commit itself."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Commits of other processes change the WAL's size and time, which can be read without a query."""
        seen, others, worked = journal_marks(self._path), None, 0
        while (writer := self._writer) is not None:
            await asyncio.sleep(WATCH_S)
            marks = journal_marks(self._path)
            if marks != seen:
                seen = marks
                if worked == self._worked:
                    heard("")
                    continue
                # The writer's own connection knows whether another process committed.
                worked, before, others = self._worked, others, await writer.call(_commits_of_others)
                if others != before:
                    heard("")

    def _opened(self, thread: ConnectionThread | None) -> ConnectionThread:
        if thread is None:
            raise Unavailable(f"the store of {self._path} is not open")
        return thread

    # On the writer's thread

    def _connect_writer(self) -> apsw.Connection:
        self._remembered = SqliteRowCache()
        self._looks = Looks(self._path)
        db = connect(self._path, self._patience)
        db.set_wal_hook(self._journal.count)
        return self._checked(db)

    def _transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, db: apsw.Connection
    ) -> tuple[Committed, bool]:
        """Returns what was committed, and whether the WAL may need a checkpoint."""
        snapshot = self._looks.nothing(db, needs, self._clock())
        if snapshot is not None and not (committed := Committed(*decide(snapshot))).changes:
            self._unmarked[committer] = number
            return committed, False
        db.execute("BEGIN IMMEDIATE")
        try:
            now = self._clock()
            if needs != Needs(keyed=needs.keyed):
                self._remembered.check(db)
            committed = Committed(*decide(load(db, needs, now, self._remembered)))
            changes = committed.changes
            leaders: list[AnyKeyed] = [record for record in changes.keyed if type(record) is Leader]
            is_sign = changes == Changes(keyed=leaders, workers=changes.workers, api_key_uses=changes.api_key_uses)
            if changes:
                write(db, changes)
                if not is_sign:
                    self._begun[committer] = now
                    db.executemany(COMMIT, commit_rows((committer, number), now, changes))
                    self._worked += 1
        except BaseException:
            _roll_back(db)
            raise
        self._looks.found(needs, nothing=not changes)
        if not changes:
            # Nothing was written, so nothing is flushed: a claim that finds no job costs no disk flush.
            _roll_back(db)
            self._unmarked[committer] = number
            return committed, False
        try:
            self._commit(db, committed)
        except BaseException:
            self._remembered.forget()
            raise
        if is_sign:
            # Renewed leaders, workers' heartbeats and uses of API keys may be written again, so they need no marker.
            self._unmarked[committer] = number
            return committed, self._journal.pages >= SIGNS_PAGES
        self._remembered.keep(changes)
        return committed, True

    def _commit(self, db: apsw.Connection, attempt: Committed | None = None) -> None:
        try:
            db.execute("COMMIT")
        except apsw.Error as error:
            if db.in_transaction:
                _roll_back(db)
                raise
            if isinstance(error, apsw.FullError):
                # The frame that completes a commit is written last; there was no space for it, so nothing was kept.
                raise
            self._is_unsettled = True
            raise CommitUnknown(
                f"the disk failed while committing to {self._path} ({error}), so the outcome is unknown",
                attempt,
            ) from error
        self._is_unsettled = False

    def _committed(self, committer: str, number: int, db: apsw.Connection) -> bool:
        if self._unmarked.get(committer, 0) >= number:
            return True
        if self._is_unsettled:
            # A failed commit may still be in the WAL, where a crash would bring it back. A further commit overwrites it
            # or confirms it; only then is the answer final.
            db.execute("BEGIN IMMEDIATE")
            try:
                db.executemany(COMMIT, commit_rows(None, self._clock(), Changes()))
            except BaseException:
                _roll_back(db)
                raise
            try:
                self._commit(db)
            except CommitUnknown as error:
                raise Unavailable(
                    f"{self._path} cannot tell yet whether the transaction was committed; ask again"
                ) from error
        if db.execute(MARKED, (committer, number)).fetchone() is not None:
            return True
        now = self._clock()
        if now - self._begun.get(committer, now) > base.ASKED_MS * MILLISECOND:
            raise CommitUnknown(f"transaction {number} of {committer} began too long ago: outcome unknown")
        return False

    def _prune(self, commits_kept_ms: int, db: apsw.Connection) -> int:
        db.execute(PRUNE, (self._clock() - commits_kept_ms * MILLISECOND, base.COMMITS_PRUNED))
        return db.changes()

    # On the reader's thread

    def _connect_reader(self) -> apsw.Connection:
        return self._checked(connect(self._path, Patience(self._busy_timeout_s), read_only=True))

    def _read(self, query: Query[T], db: apsw.Connection) -> T:
        if type(query) in ONE_STATEMENT:
            return answer(db, query, self._clock())
        db.execute("BEGIN DEFERRED")
        try:
            return answer(db, query, self._clock())
        finally:
            _roll_back(db)

    def _look_at_clock(self, after: int | None, db: apsw.Connection) -> ClockLook:
        now, ticks_s = self._clock(), time.monotonic()
        found = list(db.execute(NEWEST, (after or 0,)))
        # The rows of a large commit after its first have no committer, and neither have those that settle a doubt.
        theirs = [at for _, committer, at in found if committer is not None and committer not in self._begun]
        is_over = after is None and bool(db.execute(OVER, (now,)).get)
        return ClockLook(now, ticks_s, found[0][0] if found else after or 0, theirs, is_over)

    # On either

    def _checked(self, db: apsw.Connection) -> apsw.Connection:
        try:
            self._refuse_unfit(db)
        except BaseException:
            db.close()
            raise
        return db

    def _refuse_unfit(self, db: apsw.Connection) -> None:
        migrations.refuse_unfit(self._path, migrator.state_of(db), self.migrations)


def _nothing(db: apsw.Connection) -> None:
    """Does nothing: the call opens the connection."""


def _roll_back(db: apsw.Connection) -> None:
    # After some errors SQLite has rolled back already.
    if db.in_transaction:
        db.execute("ROLLBACK")


def _commits_of_others(db: apsw.Connection) -> int:
    """A number that changes when another connection has committed."""
    found: int = db.execute("PRAGMA data_version").get
    return found
