"""The tables, each declared once: its columns, their kinds, and how a record becomes a row and a row a record.

Both databases have these tables with these columns. Each dialect says how it reads and passes a column of each kind.
The tables of jobs are in `jobs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, fields

from ...core import records as r

Kind = Literal["text", "uuid", "number", "flag", "json", "instant"]
"""An instant is a number of microseconds since 1970; JSON is text that holds one value."""
Row = Sequence[Any]
Values = tuple[Any, ...]


class Column(Struct, frozen=True):
    name: str
    kind: Kind


class Table(Struct, frozen=True, eq=False):
    """A table, or some of its columns.

    values: makes a row of these columns from a record.
    record: makes a record from such a row.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    values: Callable[[Any], Values]
    record: Callable[[Row], Any] = tuple

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def kind(self, name: str) -> Kind:
        """A column's kind; an expression over columns gives text."""
        return next((column.kind for column in self.columns if column.name == name), "text")


def kinds(record: type[Struct], uuids: str = "", texts_of_json: str = "") -> dict[str, Kind]:
    """The kinds of a record's fields. Fields are named where their type does not tell the kind."""
    special: dict[str, Kind] = {name: "uuid" for name in uuids.split()}
    special |= {name: "json" for name in texts_of_json.split()}
    return {field.name: special.get(field.name) or _kind(field.name, field.type) for field in fields(record)}


def _kind(name: str, annotation: Any) -> Kind:
    types = getattr(annotation, "__args__", (annotation,))
    if bool in types:
        return "flag"
    if int in types:
        return "instant" if name == "at" or name.endswith("_at") else "number"
    return "text"


def columns(found: dict[str, Kind]) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in found.items())


def table(
    name: str, record: type[Struct], *key: str, uuids: str = "", texts_of_json: str = "", values_as_json: str = ""
) -> Table:
    """A table that holds a record field by field, in the order of the fields.

    texts_of_json: fields that hold JSON text. values_as_json: fields that hold values, which are written as JSON.
    """
    found = columns(kinds(record, uuids, f"{texts_of_json} {values_as_json}"))
    types = {number: field.type for number, field in enumerate(fields(record)) if field.name in values_as_json.split()}
    flags = [number for number, column in enumerate(found) if column.kind == "flag"]
    if not types and not flags:
        return Table(name, key, found, astuple, lambda row: record(*row))

    def values(made: Any) -> Values:
        row = list(astuple(made))
        for number in types:
            row[number] = None if row[number] is None else msgspec.json.encode(row[number]).decode()
        return tuple(row)

    def read(row: Row) -> Any:
        made = list(row)
        for number, kind in types.items():
            made[number] = None if made[number] is None else msgspec.json.decode(made[number], type=kind)
        for number in flags:
            made[number] = bool(made[number])
        return record(*made)

    return Table(name, key, found, values, read)


ACCOUNTS: Final = table("accounts", r.Account, "id", uuids="latest_job")
ENTRIES: Final = table("entries", r.Entry, "account_id", "number", uuids="job_id")
KEYS: Final = table("keys", r.Key, "account_id", "scope", "key", uuids="job_id batch_id")
RESERVATIONS: Final = table("reservations", r.Reservation, "id", uuids="id job_id")
BATCHES: Final = table("batches", r.Batch, "id", uuids="id")
POOLS: Final = table("pools", r.Pool, "name", values_as_json="paused_tools")
STEPS: Final = table("steps", r.Step, "job_id", "name", uuids="job_id", texts_of_json="result")
WORKERS: Final = table("workers", r.Worker, "name", values_as_json="pools")
TALLIES: Final = table("worker_counts", r.Tally, "worker", "kind")
EVENTS: Final = table("events", r.Event, "job_id", "number", uuids="job_id", values_as_json="data")
API_KEYS: Final = table("api_keys", r.ApiKey, "id", uuids="id")
API_KEY_USES: Final = table("api_key_uses", r.ApiKeyUse, "key_id", uuids="key_id")
HOOKS: Final = table("hooks", r.PendingHook, "name", "job_id", uuids="job_id")
AUDIT: Final = table("audit", r.AuditLine, "number", values_as_json="details words")
JOB_STEPS: Final = Table("steps", ("job_id",), STEPS.columns[:1], tuple)
"""All steps of a job."""
NO_QUOTES: Final = Table(
    "events",
    ("job_id", "kind"),
    columns({"job_id": "uuid", "kind": "text", "data": "json"}),
    lambda emptied: (*emptied, None),
)
"""A job's events of one kind, to clear their data."""
JOB_EVENTS: Final = Table("events", ("job_id",), EVENTS.columns[:1], tuple)
"""All events of a job."""
NO_REASONS: Final = Table(
    "entries",
    ("account_id", "number"),
    columns({"account_id": "text", "number": "number", "reason": "text"}),
    lambda emptied: (*emptied, None),
)
"""Ledger lines, to clear their reason."""
NO_WORDS: Final = Table(
    "audit",
    ("account_id", "number"),
    columns({"account_id": "text", "number": "number", "words": "json"}),
    lambda emptied: (*emptied, None),
)
"""Audit lines, to clear their words."""
CONTENTS: Final = Table(
    "contents",
    ("tool", "content_hash"),
    columns(kinds(r.Content, uuids="job_id"))[:-1],
    attrgetter("tool", "content_hash", "job_id"),
)
"""Without the result, which is read from the job."""
COMMITS: Final = Table(
    "commits",
    ("number",),
    columns(
        {
            **{"committer": "uuid", "sequence": "number", "at": "instant", "size": "number"},
            **{"events": "text", "figures": "text"},
        }
    ),
    tuple,
)
"""The events, the figures and the marker of each commit (`commits.py`)."""
