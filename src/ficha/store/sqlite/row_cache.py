"""What the writer's connection knows by heart: the accounts and the held jobs that it wrote last.

SQLite tells a connection whether any other one, of whatever process, has committed since it last asked. Asked under
the write lock, that answer holds until the batch is committed: what is remembered is what the rows hold, and they need
not be read. A job that was just claimed is finished without being read again.
"""

from __future__ import annotations

from typing import Final

import apsw

from ...core.records import HELD, Account, Job
from ...core.snapshot import Changes

MOST: Final = 20_000
"""Accounts, and jobs, that are remembered at most; with more, all are forgotten, and those in use come back."""


class SqliteRowCache:
    """For one connection: another one has a count of its own."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.jobs: dict[str, Job] = {}
        self._version: int | None = None

    def check(self, db: apsw.Connection) -> None:
        """Forgets everything if anybody else has written since the last time. To be asked under the write lock."""
        version = db.execute("PRAGMA data_version").get
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        self.accounts.clear()
        self.jobs.clear()

    def keep(self, changes: Changes) -> None:
        """Takes in what this connection has just committed."""
        for account in changes.accounts:
            self.accounts[account.id] = account
        for change in changes.jobs:
            job = change.after
            if isinstance(job.place, HELD):
                self.jobs[job.id] = job
            elif change.before is not None:
                self.jobs.pop(job.id, None)
        if max(len(self.accounts), len(self.jobs)) > MOST:
            self.forget()
