"""The simulated database: one state that many processes share, with transactions, locks and a clock.

What is committed is the memory store's state. A transaction sees it, locks rows, and at its commit replaces what it
changed in one step; until then nobody sees anything of it. The database itself lives outside all processes: when a
client dies, or stands still for too long, its transactions are rolled back, unless COMMIT had arrived.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, Literal

from ficha.core.needs import Needs
from ficha.core.records import Awaiting, Leased, Ready
from ficha.core.snapshot import Changes, Snapshot
from ficha.store.base import CommitUnknown, StoreError, Transient
from ficha.store.memory import MemoryStore

from .faults import Faults
from .locks import Locks, Owner
from .loop import Process, VirtualLoop
from .sandbox import START_AT

IDLE_S: Final = 30.0
"""A transaction whose client says nothing for so long is ended."""

Kind = Literal["postgres", "sqlite"]


class Transaction(Owner):
    """One transaction of one process."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process
        self.is_cut = False
        """The client can no longer be heard; the database may not have noticed yet."""
        self.is_committing = False
        self.reply: asyncio.Future[None] | None = None
        self.loaded_at = 0
        self.snapshot = Snapshot(0)
        self.changes = Changes()
        self.commands: tuple[Any, ...] = ()
        self.outcomes: list[Any] = []
        self.marker: tuple[str, int] = ("", 0)
        self.hints: tuple[str, ...] = ()
        self.version = ""
        """What all rows that it wrote have for a version."""
        self.ready_before: frozenset[str] = frozenset()
        """Pools in which jobs were ready when it was written on the condition that none are."""


class Database(MemoryStore):
    """`kind` says how writers are kept apart: row by row, or all by one lock."""

    def __init__(self, loop: VirtualLoop, faults: Faults, random: Random, kind: Kind) -> None:
        super().__init__(clock=self._wall_clock)
        self.loop = loop
        self.faults = faults
        self.random = random
        self.kind: Kind = kind
        self.is_optimistic = False
        """Whether its clients have PostgreSQL's optimistic layer before them."""
        self.offset_s = random.uniform(-3_600, 3_600)
        self.locks = Locks()
        self.is_away = False
        self.falls_for_s: float | None = None
        """It goes away for so long in the middle of the next commit."""
        self.slowness = 1.0
        self.commits = 0
        self.watch: Callable[[Transaction], None] = lambda transaction: None
        self.open: dict[Transaction, None] = {}
        self.listeners: dict[Process, Callable[[str], None]] = {}
        self.pools_changed_at: dict[str, int] = {}
        """pool → the commit that last changed it"""
        self.versions: dict[tuple[str, str], str] = {}
        """What a row is, and its key → the commit that last wrote it, and the server"""
        self._earlier: dict[tuple[str, str], str] = {}
        """The version that each row had before."""
        self._server = 1

    def _wall_clock(self) -> int:
        return int((START_AT + self.offset_s + self.loop.now) * 1_000_000)

    def latency_s(self) -> float:
        return self.random.expovariate(1.0) * self.faults.latency_s * self.slowness

    # What a transaction does

    def begin(self, process: Process) -> Transaction:
        transaction = Transaction(process)
        self.open[transaction] = None
        return transaction

    def lock_order(self, needs: Needs) -> Iterable[tuple[str, ...]]:
        """What to lock, one after the other: accounts, hot rows of jobs, pools, keyed records, API keys."""
        if self.kind == "sqlite":
            yield ("file",)
            return
        for account in self.sorted_accounts(self._accounts(needs)):
            yield "account", account
        for job_id in sorted(needs.jobs | needs.owned_jobs):
            if self._is_hot(job_id):
                yield "job", job_id
        for name in sorted(needs.pools):
            if name in self.state.pools and self._is_locked_by(needs, name):
                yield "pool", name
        for name in sorted(needs.keyed & self.state.keyed.keys()):
            yield name
        if needs.api_keys or needs.api_keys_of:
            yield ("api keys",)

    def sorted_accounts(self, accounts: set[str]) -> list[str]:
        return sorted(accounts)

    def _accounts(self, needs: Needs) -> set[str]:
        state = self.state
        owners = {job.account_id for key in needs.owned_jobs if (job := state.jobs.get(key)) is not None}
        holders = {held.account_id for key in needs.reservations if (held := state.reservations.get(key)) is not None}
        return (needs.accounts | needs.reservations_of | needs.parked_of | owners | holders) & state.accounts.keys()

    def _is_hot(self, job_id: str) -> bool:
        job = self.state.jobs.get(job_id)
        return job is not None and isinstance(job.place, Ready | Leased | Awaiting)

    def _is_locked_by(self, needs: Needs, name: str) -> bool:
        """A claim needs the pool to itself only where slots are counted; whoever changes a pool always does."""
        return name not in needs.ready or name in needs.changed_pools or self.state.pools[name].limit is not None

    def is_torn(self, transaction: Transaction, needs: Needs) -> bool:
        """Whether something that has to be locked came or moved while the locks were being taken."""
        return any(key not in transaction.holds for key in self.lock_order(needs))

    def load(self, transaction: Transaction, needs: Needs) -> Snapshot:
        """One view of what is committed. Ready jobs that others hold are skipped; those taken are locked."""
        everything = self.ready
        self.ready = defaultdict(
            set, {pool: {key for key in everything[pool] if self._is_free(transaction, key)} for pool in needs.ready}
        )
        try:
            snapshot = self.snapshot(needs)
        finally:
            self.ready = everything
        if self.kind == "postgres":
            for jobs in snapshot.ready.values():
                for job_id in jobs:
                    self.locks.take(transaction, ("job", job_id))
        transaction.snapshot = snapshot
        transaction.loaded_at = self.commits
        return snapshot

    def _is_free(self, transaction: Transaction, job_id: str) -> bool:
        return self.locks.owner(("job", job_id)) in (None, transaction)

    def commit(self, transaction: Transaction) -> None:
        """COMMIT has arrived and is on disk: everything is visible at once, and the locks are free."""
        if transaction.has_ended:
            return
        try:
            self._refuse_double_keys(transaction)
            self._apply(transaction.changes)
        except StoreError as error:
            self._answer(transaction, error)
        else:
            committer, number = transaction.marker
            self._markers[committer] = number
            self.commits += 1
            transaction.version = f"{self.commits}@{self._server}"
            self._mark_versions(transaction)
            self.pools_changed_at.update(dict.fromkeys((p.name for p in transaction.changes.pools), self.commits))
            self.watch(transaction)
            self.tell(transaction.hints, transaction.process)
            self._answer(transaction, None)
        self.end(transaction)

    def _mark_versions(self, transaction: Transaction) -> None:
        changes = transaction.changes
        rows = [
            *(("account", account.id) for account in changes.accounts),
            *(("job", change.after.id) for change in changes.jobs),
            *(("pool", pool.name) for pool in changes.pools),
        ]
        self._earlier.update((row, self.versions[row]) for row in rows if row in self.versions)
        self.versions.update(dict.fromkeys(rows, transaction.version))

    def tell(self, hints: Iterable[str], teller: Process) -> None:
        """Hints to every other process, some of which get lost."""
        for process, heard in self.listeners.items():
            for name in sorted(hints):
                if process is not teller and self.random.random() >= self.faults.hint_lost:
                    self.loop.call_later(self.latency_s(), heard, name, context=process.context)

    def _refuse_double_keys(self, transaction: Transaction) -> None:
        """What a row's key forbids: another commit group made the same new row first."""
        seen, changes, state = transaction.snapshot, transaction.changes, self.state
        for known, now, keys in (
            (seen.accounts, state.accounts, [row.id for row in changes.accounts]),
            (seen.pools, state.pools, [row.name for row in changes.pools]),
            (seen.keyed, state.keyed, [*(row.name_in_state for row in changes.keyed), *changes.removed_keyed]),
            (seen.api_keys, state.api_keys, [row.id for row in changes.api_keys]),
            (seen.reservations, state.reservations, [row.id for row in changes.reservations]),
            (seen.contents, state.contents, [(row.tool, row.content_hash) for row in changes.begun_contents]),
            (seen.keys, state.keys, [(row.account_id, row.scope, row.key) for row in changes.keys]),
        ):
            for key in keys:
                if known.get(key) is None and key in now:
                    raise Transient(f"another group made the row {key} first; nothing was kept")

    def _answer(self, transaction: Transaction, error: StoreError | None) -> None:
        reply = transaction.reply
        if reply is None or reply.done() or transaction.is_cut:
            return
        if error is None:
            reply.set_result(None)
        else:
            reply.set_exception(error)

    def end(self, transaction: Transaction) -> None:
        """Rolled back, or just committed."""
        if not transaction.has_ended:
            self.open.pop(transaction, None)
            self.locks.release(transaction)

    def later(self, delay_s: float, act: Callable[..., None], *args: Any) -> None:
        """Something the database does by itself, whatever becomes of its clients."""
        self.loop.call_later(delay_s, act, *args, context=self.loop.outside.context)

    @property
    def has_late_commits(self) -> bool:
        """Whether something will yet be committed for a client that is gone."""
        return any(t.is_committing and (t.is_cut or t.process.is_dead) for t in self.open)

    # What happens to it

    def hang_up(self, process: Process) -> None:
        """A client is gone, or was silent for too long: all that it had not committed is rolled back."""
        for transaction in [t for t in self.open if t.process is process and not t.is_committing]:
            transaction.is_cut = True
            self.end(transaction)

    def go_away(self, seconds: float) -> None:
        """The database stops: of the commits under way some were on disk, and nobody is told which."""
        if self.is_away:
            return
        self.is_away = True
        for transaction in list(self.open):
            reply, transaction.is_cut = transaction.reply, True
            if transaction.is_committing and self.random.random() < 0.5:
                self.commit(transaction)
            self.end(transaction)
            if reply is not None and not reply.done():
                reply.set_exception(CommitUnknown("the database went away while committing"))
        self.later(seconds, self._come_back)

    def _come_back(self) -> None:
        """As another server, on which the versions that rows had before stand for what they are now."""
        self.is_away = False
        self._server += 1
        for row, version in {**self.versions, **self._earlier}.items():
            self.versions[row] = f"{version.partition('@')[0]}@{self._server}"
