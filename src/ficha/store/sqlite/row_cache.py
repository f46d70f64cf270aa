"""Caches the accounts and the held jobs that the writer's connection wrote last.

A connection can ask SQLite whether any other connection, of any process, has committed since it last asked
(`data_version`). Under the write lock, the answer holds until the commit, so cached rows are current and need not be
read. A job that was just claimed is finished without being read again.
"""

from __future__ import annotations

from typing import Final

import apsw

from ...core.records import HELD, Account, Job
from ...core.snapshot import Changes

MOST: Final = 20_000
"""How many accounts, and how many jobs, are cached. With more the cache is emptied; rows in use are cached again."""


class SqliteRowCache:
    """The cache of one connection: each connection has its own `data_version`."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.jobs: dict[str, Job] = {}
        self._version: int | None = None

    def check(self, db: apsw.Connection) -> None:
        """Empties the cache if another connection has written since the last check. Call it under the write lock."""
        version = db.execute("PRAGMA data_version").get
        if version != self._version:
            self.forget()
            self._version = version

    def forget(self) -> None:
        self.accounts.clear()
        self.jobs.clear()

    def keep(self, changes: Changes) -> None:
        """Caches what this connection has just committed."""
        for account in changes.accounts:
            self.accounts[account.id] = account
        for change in changes.jobs:
            job = change.after
            if isinstance(job.place, HELD):
                self.jobs[job.id] = job
            elif change.before is not None:
                self.jobs.pop(job.id, None)
        for job_id in changes.forgotten_jobs:
            self.jobs.pop(job_id, None)
        if max(len(self.accounts), len(self.jobs)) > MOST:
            self.forget()
