"""All rows, or a complete part of them: some accounts with everything they own.

Tests and the memory store hold all rows; `ficha verify` reads a live database in parts.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct, field

from .records import (
    Account,
    AnyKeyed,
    ApiKey,
    ApiKeyUse,
    AuditLine,
    Batch,
    Content,
    Entry,
    Event,
    HookName,
    Job,
    Key,
    Keyed,
    KeyedName,
    KeyName,
    PendingHook,
    Pool,
    Reservation,
    Step,
    Tally,
    TallyKind,
    Worker,
)

R = TypeVar("R", bound=Keyed)


class State(Struct):
    """Every row, by its key. Entries and a job's events are ordered by number, audit lines by when they were
    written."""

    accounts: dict[str, Account] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    payloads: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    steps: dict[tuple[str, str], Step] = field(default_factory=dict)
    keys: dict[KeyName, Key] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    contents: dict[tuple[str, str], Content] = field(default_factory=dict)
    keyed: dict[KeyedName, AnyKeyed] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    tallies: dict[tuple[str, TallyKind], Tally] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    api_keys: dict[str, ApiKey] = field(default_factory=dict)
    api_key_uses: dict[str, ApiKeyUse] = field(default_factory=dict)
    audit: list[AuditLine] = field(default_factory=list)
    hooks: dict[HookName, PendingHook] = field(default_factory=dict)

    def of(self, kind: type[R]) -> dict[str, R]:
        """The keyed records of a kind, by their key."""
        return {name[1]: record for name, record in self.keyed.items() if isinstance(record, kind)}
