"""What a store passes to `decide`, and what `decide` returns."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import astuple

from .records import (
    HELD,
    Account,
    AccountRows,
    AnyKeyed,
    ApiKey,
    ApiKeyUse,
    AuditLine,
    Batch,
    Content,
    ContentName,
    Entry,
    Event,
    Figures,
    HookName,
    Job,
    Key,
    KeyedName,
    KeyName,
    PendingHook,
    Pool,
    Reservation,
    Step,
    Tally,
    Worker,
)


class Snapshot(Struct):
    """The rows that a commit group needs, read under its locks. A row that does not exist is None.

    parked and ready list job ids in claim order (rank, then id); those jobs are in `jobs` too.
    parts_of has how many active parts each split request of an account has.
    """

    now: int
    accounts: dict[str, Account | None] = field(default_factory=dict)
    jobs: dict[str, Job | None] = field(default_factory=dict)
    payloads: dict[str, str] = field(default_factory=dict)
    steps: dict[tuple[str, str], str | None] = field(default_factory=dict)
    keys: dict[KeyName, Key | None] = field(default_factory=dict)
    reservations: dict[str, Reservation | None] = field(default_factory=dict)
    reservations_of: dict[str, list[Reservation]] = field(default_factory=dict)
    parked: dict[str, list[str]] = field(default_factory=dict)
    pools: dict[str, Pool | None] = field(default_factory=dict)
    occupied: dict[str, int] = field(default_factory=dict)
    ready: dict[str, list[str]] = field(default_factory=dict)
    contents: dict[ContentName, Content | None] = field(default_factory=dict)
    keyed: dict[KeyedName, AnyKeyed | None] = field(default_factory=dict)
    batches: dict[str, Batch | None] = field(default_factory=dict)
    api_keys: dict[str, ApiKey | None] = field(default_factory=dict)
    api_keys_of: dict[str, list[ApiKey]] = field(default_factory=dict)
    hooks_of: dict[str, list[PendingHook]] = field(default_factory=dict)
    rows_of: dict[str, AccountRows] = field(default_factory=dict)
    parts_of: dict[str, dict[str, int]] = field(default_factory=dict)

    def add_contents(self) -> list[ContentName]:
        """Adds the content of every job that may be claimed, as not found, and returns the names of those still to be
        read. Most jobs have no content. Held jobs are left out: returning one to the queue ends its own content."""
        found = {
            (job.spec.tool, job.spec.content_hash)
            for job in self.jobs.values()
            if job is not None and job.spec.content_hash is not None and not isinstance(job.place, HELD)
        }
        unread = sorted(found - self.contents.keys())
        self.contents.update(dict.fromkeys(unread))
        return unread


class JobChange(Struct, frozen=True, gc=False):
    """A job as it was (None: it is new) and as it is now."""

    before: Job | None
    after: Job


class Changes(Struct):
    """The rows to write: the new value of each record that changed, and the lines to append.

    results holds the result text of jobs that ended in this group, payloads that of jobs that are new.
    begun_contents are those that no job computed before: a store whose transactions run side by side rejects the group
    if another one has begun them meanwhile. tallies are added to the stored counts. events holds all events, for
    followers; history holds those that do not follow from a job's row and are stored as rows.
    figures is what all of it did to jobs and credits, to be added up later (`figures.py`).
    forgotten_steps names jobs whose stored steps are deleted; emptied_events names jobs, and the kinds of their stored
    events that lose their data.
    forgotten_jobs names jobs that are deleted with their checkpoint, steps and history. `jobs` may have them too, as
    they were when this group deleted them. emptied_entries names ledger lines that lose their reason,
    emptied_audit audit lines that lose their words, by their account and number.
    """

    accounts: list[Account] = field(default_factory=list)
    jobs: list[JobChange] = field(default_factory=list)
    payloads: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    forgotten_keys: list[KeyName] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    forgotten_reservations: list[str] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)
    begun_contents: list[Content] = field(default_factory=list)
    forgotten_contents: list[ContentName] = field(default_factory=list)
    keyed: list[AnyKeyed] = field(default_factory=list)
    removed_keyed: list[KeyedName] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    history: list[Event] = field(default_factory=list)
    api_keys: list[ApiKey] = field(default_factory=list)
    api_key_uses: list[ApiKeyUse] = field(default_factory=list)
    audit: list[AuditLine] = field(default_factory=list)
    hooks: list[PendingHook] = field(default_factory=list)
    ended_hooks: list[HookName] = field(default_factory=list)
    forgotten_steps: list[str] = field(default_factory=list)
    emptied_events: list[tuple[str, str]] = field(default_factory=list)
    forgotten_jobs: list[str] = field(default_factory=list)
    forgotten_batches: list[str] = field(default_factory=list)
    emptied_entries: list[tuple[str, int]] = field(default_factory=list)
    emptied_audit: list[tuple[str, int]] = field(default_factory=list)
    figures: Figures | None = None

    def __bool__(self) -> bool:
        return any(astuple(self))
