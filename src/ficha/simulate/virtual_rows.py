"""The rows of a simulation, as the workspace that the rules work on: one workspace for all of it, whose clock moves.

In production each commit group has a workspace of its own, made from a snapshot. Deciding commands one after the other
on one workspace is the same, because each command sees the changes of those before it. What the rules write and no
later command reads (results, events, ledger lines, tallies) is counted or dropped here, so that a million jobs need
little memory. No rule is in this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from ..core.claimable import Claimable
from ..core.commands import Command, OpenAccount
from ..core.outcomes import AccountChanged, Outcome
from ..core.policy import OWN_PREFIX, Policy
from ..core.records import Account, Entry, Job, Pool
from ..core.rules import RULES
from ..core.snapshot import JobChange, Snapshot
from ..core.workspace import Workspace

NO_PAYLOAD: Final = "{}"
"""Handlers are not run, so jobs have no payloads."""


class _Jobs(dict[str, Job | None]):
    """Jobs that have not ended. One that has, which a list may still name, reads as None."""

    def __missing__(self, key: str) -> None:
        return None


class _Nothing(dict[Any, Any]):
    """Records of rare kinds: a simulation has none, such as brakes."""

    def __missing__(self, key: Any) -> None:
        return None


class _Dropped(dict[Any, Any]):
    """A mapping that drops what is written: no later command reads it."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


class VirtualRows(Workspace):
    """All accounts, all jobs that have not ended, the ready and the parked lists, and the occupied slots."""

    def __init__(self, policy: Policy, pools: Iterable[Pool], now: int) -> None:
        by_name = {pool.name: pool for pool in pools}
        super().__init__(Snapshot(now, pools={**by_name}, occupied=dict.fromkeys(by_name, 0)), policy)
        self._jobs = _Jobs()  # type: ignore[assignment]
        self.claimable = Claimable(self._jobs, {name: [] for name in by_name}, {})
        self._payloads = _Dropped()  # type: ignore[assignment]
        self._keyed = _Nothing()  # type: ignore[assignment]
        self._changed_accounts = _Dropped()
        self._changes.payloads = _Dropped()
        self.plans: dict[str, str] = {}
        """The plan of each account that is open."""
        self.entries: list[Entry] = []
        """The ledger lines of the command that was decided last."""

    def decide(self, command: Command, now: int) -> Outcome:
        """Decides one command by its rule, at this time."""
        self.now = now
        self._jobs_before.clear()
        self.entries.clear()
        return RULES[type(command)].decide(self, command)

    def take_changed(self) -> list[JobChange]:
        """The jobs that the last command changed, each as it was and as it is. Those that ended are forgotten."""
        changed = []
        for job_id, before in self._jobs_before.items():
            job = self._known(self._jobs[job_id])
            changed.append(JobChange(before, job))
            if job.place is None:
                del self._jobs[job_id]
        return changed

    def open_account(self, account_id: str, plan: str, credits: int, now: int) -> None:
        self._accounts[account_id] = None
        self._reservations_of[account_id] = {}
        self.claimable.add_account(account_id)
        if account_id.startswith(OWN_PREFIX):
            # Ficha opens its own accounts by itself.
            self.put_account(Account(account_id, plan, now))
        else:
            outcome = self.decide(OpenAccount(account_id, plan, credits), now)
            assert isinstance(outcome, AccountChanged), outcome
        self.plans[account_id] = plan

    def has_submitted_before(self, account_id: str) -> None:
        """The account had jobs before the simulation starts, so that its next one is not its first."""
        account = self._known(self._accounts[account_id])
        self._accounts[account_id] = replace(account, submitted=1)

    def accounts(self) -> list[Account]:
        return [self._known(account) for account in self._accounts.values()]

    def unended(self) -> list[Job]:
        """The jobs that have not ended."""
        return [self._known(job) for job in self._jobs.values()]

    def may_start(self, pool: str) -> bool:
        """Whether a claim may find something: a job is listed and a slot is free. The claim itself decides."""
        limit = self._known(self._pools[pool]).limit
        return self.claimable.may_have_ready(pool) and (limit is None or self._occupied[pool] < limit)

    # What the rules write, and no later command reads

    def payload(self, job_id: str) -> str:
        return NO_PAYLOAD

    def put_result(self, job_id: str, result: str) -> None:
        pass

    def add_event(self, job: Job, kind: str, **data: Any) -> None:
        pass

    def add_entry(self, entry: Entry) -> None:
        self.entries.append(entry)

    def _tally(self, before: Job, after: Job) -> None:
        pass
