"""One record per command: what it needs, how it is decided, what the audit log writes for it.

Each rule is in the file of its noun (`submit.py`, `pools.py`, …), which lists its rules in `RULES`; `rules.py` collects
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from .codes import Code
from .commands import Command
from .outcomes import Outcome
from .records import AccountRows, ContentName, Keyed, KeyedName, KeyName
from .snapshot import Snapshot
from .workspace import Workspace

C = TypeVar("C", bound=Command)

PROMOTIONS_PER_SLOT = 2
"""Parked jobs that one freed slot may promote: one for the slot, and one more in case the limit was raised."""


class Needs(Struct):
    """Keys and scans to load.

    accounts: by id, locked.
    jobs: by id, their hot row locked, without locking their account.
    owned_jobs: by id, their hot row locked after locking their account, with up to `PROMOTIONS_PER_SLOT` parked
        jobs of the account for each job named.
    payloads: ids among `owned_jobs` whose payload is loaded too. With `ready`, parked jobs are loaded with their
        payload as well: a claim may take a job that another command of the group promoted.
    steps: (job, step name), the stored result.
    keys: by name, each with the job it led to, if any.
    reservations: by id, after locking their account.
    reservations_of: accounts whose active reservations are wanted.
    parked_of: accounts of which all parked jobs are wanted.
    pools: by name, locked where it has a limit and a claim asks for it.
    changed_pools: those among them that one of the commands may change, locked also where they have no limit.
    ready: how many of the best ready jobs of each pool, with payload and, where it has a limit or may get one, the
        pool's occupied slots; rows that another transaction holds are skipped.
    suspects: pools of which suspects are wanted among the ready jobs; of others they are left out.
    contents: (tool, content hash), with the result; and those of all loaded jobs that may be claimed
        (`Snapshot.add_contents`).
    keyed: records of rare kinds, by kind and key, locked (`find` adds one).
    looked: keyed records that are only read: they are not locked.
    batches: by id; an account's batches change only under its lock.
    api_keys: by id, under the one lock that all changes of API keys share.
    api_keys_of: names of which all keys that were not revoked are wanted, under the same lock.
    hooks_of: jobs of which all pending hooks are wanted; these change only under the lock of the job's account.
    rows_of: accounts whose rows are counted, after locking them.
    parts_of: accounts of which the active parts of split requests are counted, after locking them.
    """

    accounts: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    owned_jobs: set[str] = field(default_factory=set)
    payloads: set[str] = field(default_factory=set)
    steps: set[tuple[str, str]] = field(default_factory=set)
    keys: set[KeyName] = field(default_factory=set)
    reservations: set[str] = field(default_factory=set)
    reservations_of: set[str] = field(default_factory=set)
    parked_of: set[str] = field(default_factory=set)
    pools: set[str] = field(default_factory=set)
    changed_pools: set[str] = field(default_factory=set)
    ready: dict[str, int] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)
    contents: set[ContentName] = field(default_factory=set)
    keyed: set[KeyedName] = field(default_factory=set)
    looked: set[KeyedName] = field(default_factory=set)
    batches: set[str] = field(default_factory=set)
    api_keys: set[str] = field(default_factory=set)
    api_keys_of: set[str] = field(default_factory=set)
    hooks_of: set[str] = field(default_factory=set)
    rows_of: set[str] = field(default_factory=set)
    parts_of: set[str] = field(default_factory=set)

    def find(self, kind: type[Keyed], *keys: str) -> None:
        """Adds keyed records of this kind."""
        self.keyed.update((kind.__name__, key) for key in keys)

    def look(self, kind: type[Keyed], *keys: str) -> None:
        """The same for records that are only read."""
        self.looked.update((kind.__name__, key) for key in keys)

    def nothing(self, now: int) -> Snapshot:
        """The snapshot in which none of these rows was found."""
        accounts = self.accounts | self.reservations_of | self.parked_of
        return Snapshot(
            now,
            accounts=dict.fromkeys(accounts),
            jobs=dict.fromkeys(self.jobs | self.owned_jobs),
            steps=dict.fromkeys(self.steps),
            keys=dict.fromkeys(self.keys),
            reservations=dict.fromkeys(self.reservations),
            reservations_of={account: [] for account in self.reservations_of},
            parked={account: [] for account in accounts},
            pools=dict.fromkeys(self.pools),
            occupied=dict.fromkeys(self.ready, 0),
            ready={pool: [] for pool in self.ready},
            contents=dict.fromkeys(self.contents),
            keyed=dict.fromkeys(self.keyed | self.looked),
            batches=dict.fromkeys(self.batches),
            api_keys=dict.fromkeys(self.api_keys),
            api_keys_of={name: [] for name in self.api_keys_of},
            hooks_of={job_id: [] for job_id in self.hooks_of},
            rows_of={account: AccountRows(account) for account in self.rows_of},
            parts_of={account: {} for account in self.parts_of},
        )


class Audited(Struct, frozen=True):
    """The audit line of a command: the act's name, its object, and its details."""

    act: str
    target: str
    details: dict[str, Any] = {}


class Rule(Struct, Generic[C], frozen=True):
    """Everything about one command.

    decide: decides it on a workspace. Nothing else changes anything.
    needs: adds the keys and scans that `decide` will read. It sees the command alone.
    refuses: the codes that `decide` may refuse it with. A test compares them with the code.
    audit: makes its audit line from the command and its outcome. None for routine commands of workers and sweeper.
    locks_account: whether it waits for an account's lock. Commands that do not are committed separately.
    """

    command: type[C]
    decide: Callable[[Workspace, C], Outcome]
    needs: Callable[[Needs, C], None]
    refuses: tuple[Code, ...] = ()
    audit: Callable[[C, Any], Audited] | None = None
    locks_account: bool = True
