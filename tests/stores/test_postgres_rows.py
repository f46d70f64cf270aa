"""Rows travel as the text of an array of their table's type: whatever is in them, what arrives is the same."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import needs
from ficha.core.records import Entry, Event, Job, Key, Pool
from ficha.core.snapshot import Changes
from ficha.store.base import GetState, SchemaMismatch, StoreError, Transient
from ficha.store.postgres import PostgresStore
from ficha.store.postgres.dialect import Layout
from ficha.store.sql.tables import ENTRIES, POOLS
from tests.stores.postgres_setup import POLICY, connected, opened, prepare
from tests.support.new_jobs import new_job


@dataclass
class Expected:
    """What the rules decided, in the order in which it was written."""

    jobs: dict[str, Job] = field(default_factory=dict)
    keys: dict[tuple[str, str, str], Key] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def add(self, changes: Changes) -> None:
        self.jobs.update({change.after.id: change.after for change in changes.jobs})
        self.keys.update({(key.account_id, key.scope, key.key): key for key in changes.keys})
        self.entries += changes.entries
        self.events += changes.events
        self.texts.update(changes.results)


async def write(store: PostgresStore, expected: Expected, *group: c.Command) -> list[Any]:
    done = await store.transact(str(uuid4()), 1, needs(group), lambda snapshot: decide(snapshot, group, POLICY))
    expected.add(done.changes)
    return done.outcomes


KEY = "0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10"
LABELS = {"session", "correlation_id"}


def submit(tool: str = "upscale", cost: int = 5, *, max_wait_ms: int | None = None, **options: Any) -> c.Submit:
    labels = {name: options.pop(name) for name in LABELS & options.keys()}
    job = new_job(str(uuid4()), tool, "gpu", '{"x": 1}', cost, max_wait_ms=max_wait_ms, **labels)
    return c.Submit("ana", (job,), key=job.id, **options)


GROUPS: dict[str, tuple[c.Submit, ...]] = {
    "alone": (submit(),),
    "alone with all options": (submit("paint", 7, session="s", correlation_id="c", max_wait_ms=9),),
    "alike": (submit(), submit(), submit()),
    "of two tools": (submit(), submit("paint", 7)),
    "of one session": (submit(session="s"), submit(session="s")),
    "of two sessions": (submit(session="s"), submit(session="t")),
    "with a session and without": (submit(session="s"), submit()),
    "one that does not wait": (submit(), submit(max_wait_ms=60_000)),
    "of one key": (submit(submitted_by=KEY), submit(submitted_by=KEY)),
    "with a key and without": (submit(submitted_by=KEY), submit()),
    "with a correlation": (submit(correlation_id="c"), submit("paint")),
    "some for nothing": (submit(cost=0), submit()),
}


@pytest.mark.parametrize("submits", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("workers", [("w1",), ("w1", "w2")])
async def test_what_rows_share_arrives_in_each_of_them(
    migrated_url: str, submits: Sequence[c.Submit], workers: tuple[str, ...]
) -> None:
    async with opened(migrated_url) as store:
        await prepare(store)
        expected = Expected()
        await write(store, expected, *submits)
        claimed = await write(store, expected, *(c.Claim(worker, ("gpu",), 2) for worker in workers))
        leases = [lease for outcome in claimed for lease in outcome.leases]
        endings: list[c.Ending] = [c.Completed('{"ok": true}'), c.Failed("no"), c.Completed('{"ok": false}')]
        finishes = [c.Finish(lease.job.id, ending, lease.epoch) for lease, ending in zip(leases, endings, strict=False)]
        await write(store, expected, *finishes)
        state = await store.read(GetState(texts=True))
    assert len(finishes) == min(len(submits), 2 * len(workers))
    assert state.jobs == expected.jobs
    assert state.keys == expected.keys
    assert [entry for entry in state.entries if entry.job_id] == expected.entries
    assert state.events == sorted(expected.events, key=lambda event: (event.job_id, event.number))
    assert state.results == expected.texts


TEXTS = [
    "",
    "NULL",
    "null",
    '"',
    "\\",
    '\\"',
    "{}",
    "()",
    "a,b",
    " x ",
    "\n\t",
    "é",
    "🙂",
    "\u2028",
    "'; DROP TABLE ficha.jobs",
]


@pytest.fixture
async def layout(migrated_url: str) -> Layout:
    layout = Layout([ENTRIES, POOLS])
    async with connected(migrated_url) as connection:
        await layout.read(connection)
    return layout


@pytest.mark.parametrize("texts", [TEXTS, [*TEXTS, None], [None, None], ["x"], [None, "x", None]])
async def test_texts_arrive_as_they_were_sent(migrated_url: str, layout: Layout, texts: list[str | None]) -> None:
    records = [Entry("a", 1, "grant", -(2**63), 0, 4_102_444_799_999_999, None, text) for text in texts]
    async with connected(migrated_url) as connection:
        columns = ", ".join(f"v.{name}" for name in ENTRIES.names if name not in ("at", "job_id"))
        found = await connection.fetch(
            f"SELECT {columns}, v.at::text FROM unnest($1::text::ficha.entries[]) AS v", layout.rows(ENTRIES, records)
        )
    at = "2099-12-31 23:59:59.999999+00"
    assert [tuple(row) for row in found] == [("a", 1, "grant", -(2**63), 0, text, at) for text in texts]


async def test_truth_values_arrive(migrated_url: str, layout: Layout) -> None:
    text = layout.rows(POOLS, [Pool("a", None, 1, True), Pool("b", 0, None, False)])
    async with connected(migrated_url) as connection:
        found = await connection.fetch("SELECT name, slots, resized, paused FROM unnest($1::text::ficha.pools[])", text)
    assert [tuple(row) for row in found] == [("a", None, 1, True), ("b", 0, None, False)]


async def test_a_text_with_a_nul_character_cannot_pass_for_two(layout: Layout) -> None:
    with pytest.raises(StoreError, match="NUL"):
        layout.rows(POOLS, [Pool("a\x00b"), Pool("c")])


@pytest.mark.parametrize("optimistic", [True, False])
async def test_a_column_that_a_table_gets_or_loses_meanwhile_does_no_harm(postgres_url: str, optimistic: bool) -> None:
    async with opened(postgres_url, committers=1, optimistic=optimistic) as store, connected(postgres_url) as admin:
        await prepare(store)
        for change in ("ADD COLUMN colour text", "DROP COLUMN colour"):
            for table in ("jobs", "accounts"):
                await admin.execute(f"ALTER TABLE ficha.{table} {change}")
            # As the engine does: a conflict is run again.
            for _ in range(3):
                with suppress(Transient):
                    outcomes = await write(store, Expected(), submit())
                    break
            assert len(outcomes) == 1
    async with connected(postgres_url) as admin:
        assert await admin.fetchval("SELECT count(*) FROM ficha.jobs") == 2


async def test_a_table_that_is_not_there_is_a_mismatch_of_schemas(layout: Layout) -> None:
    with pytest.raises(SchemaMismatch, match="migrate up"):
        layout.rows(replace(POOLS, name="puddles"), [Pool("a")])
