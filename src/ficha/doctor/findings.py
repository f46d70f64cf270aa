"""The findings of an examination, the limits beyond which something is one, and the exit codes for scripts."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Severity = Literal["note", "warning", "critical", "unchecked"]
"""`note`: nobody has to act. `unchecked`: something could not be checked, so nothing is known about it."""
EXIT_CODES: Final[dict[Severity, int]] = {"note": 0, "warning": 1, "critical": 2, "unchecked": 3}
GIB: Final = 1 << 30


class Finding(Struct, frozen=True):
    """One thing: a code that stays the same, how much it matters, what is wrong, and what to do."""

    group: str
    code: str
    severity: Severity
    what: str
    remedy: str


class DoctorReport(Struct, frozen=True, kw_only=True):
    """The result of an examination.

    facts: versions and sizes, by name. checked: the groups of checks that ran. findings: the worst first.
    """

    database: str
    facts: dict[str, str | int | float]
    checked: list[str]
    findings: list[Finding]
    reads: int
    """How many statements were sent to the database."""

    @property
    def exit_code(self) -> int:
        """The code of the worst finding; `unchecked` counts as worse than `warning`, and better than `critical`."""
        found = {finding.severity for finding in self.findings}
        for severity in WORST_FIRST:
            if severity in found:
                return EXIT_CODES[severity]
        return 0


WORST_FIRST: Final[tuple[Severity, ...]] = ("critical", "unchecked", "warning", "note")


class DoctorLimits(Struct, frozen=True, kw_only=True):
    """The limits beyond which something is a finding.

    clock_s: seconds between this machine's clock and the database's. Ten times as many are critical.
    transaction_s: how long a transaction of anybody may be open.
    idle_transaction_s: how long one may be open and do nothing.
    connections_share: the share of the database's connections in use. Halfway from there to all is critical.
    dead_rows: dead rows of a table, if they are also more than its live ones.
    overdue_s: how long a lease may be over, or a parked job due, without being recovered.
    sweeper_s: how long nobody may lead the sweeps while jobs wait or run.
    slot_wal_bytes: WAL that one replication slot holds back.
    wal_bytes: the size of the WAL: all of PostgreSQL's, or of SQLite's -wal file.
    free_share, free_bytes: the disk's free space, if it is less than both. Less than a tenth of either is critical.
    unused_share, unused_bytes: how much of an SQLite file, or of a table of PostgreSQL, is empty, if it is more than
        both.
    dead_letters: failed jobs that nobody has dealt with.
    files_checked: how many of the newest files, and of the files in the folder, are compared with each other.
    """

    clock_s: float = 2.0
    transaction_s: float = 300.0
    idle_transaction_s: float = 60.0
    connections_share: float = 0.8
    dead_rows: int = 50_000
    overdue_s: float = 60.0
    sweeper_s: float = 60.0
    slot_wal_bytes: int = GIB
    wal_bytes: int = 4 * GIB
    free_share: float = 0.1
    free_bytes: int = 5 * GIB
    unused_share: float = 0.5
    unused_bytes: int = 100_000_000
    dead_letters: int = 100
    files_checked: int = 1_000


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1_000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1_000
    raise AssertionError
