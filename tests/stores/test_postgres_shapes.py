"""What the rows of a batch have in common travels once, or not at all: whatever that is, what arrives is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import needs
from ficha.core.records import Entry, Event, Job, Key
from ficha.core.snapshot import Changes
from ficha.store.base import GetState
from ficha.store.postgres import PostgresStore
from ficha.store.postgres.write_ctes import BORN, ENTRIES, EVENTS, WritePart
from tests.stores.postgres_setup import POLICY, opened, prepare
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


async def write(store: PostgresStore, expected: Expected, *batch: c.Command) -> list[Any]:
    done = await store.transact(str(uuid4()), 1, needs(batch), lambda snapshot: decide(snapshot, batch, POLICY))
    expected.add(done.changes)
    return done.outcomes


LABELS = {"session", "correlation_id"}


def submit(tool: str = "upscale", cost: int = 5, *, max_wait_ms: int | None = None, **options: Any) -> c.Submit:
    labels = {name: options.pop(name) for name in LABELS & options.keys()}
    job = new_job(str(uuid4()), tool, "gpu", '{"x": 1}', cost, max_wait_ms=max_wait_ms, **labels)
    return c.Submit("ana", (job,), key=job.id, **options)


BATCHES: dict[str, tuple[c.Submit, ...]] = {
    "alone": (submit(),),
    "alone with all options": (submit("paint", 7, session="s", correlation_id="c", max_wait_ms=9),),
    "alike": (submit(), submit(), submit()),
    "of two tools": (submit(), submit("paint", 7)),
    "of one session": (submit(session="s"), submit(session="s")),
    "of two sessions": (submit(session="s"), submit(session="t")),
    "with a session and without": (submit(session="s"), submit()),
    "one that does not wait": (submit(), submit(max_wait_ms=60_000)),
    "with a correlation": (submit(correlation_id="c"), submit("paint")),
    "some for nothing": (submit(cost=0), submit()),
}


@pytest.mark.parametrize("submits", BATCHES.values(), ids=BATCHES)
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


def ways(part: WritePart) -> list[WritePart]:
    """A part and its shorter ways, from the longest to the shortest."""
    return [part, *(ways(part.usual.part) if part.usual else ())]


@pytest.mark.parametrize("part", [BORN, ENTRIES, EVENTS], ids=lambda part: part.name)
def test_a_row_that_is_not_as_usual_takes_the_long_way(part: WritePart) -> None:
    usual: list[Any] = [f"v{n}" for n in range(len(part.columns))]
    assert part.usual is not None
    for n, value in zip(part.usual.fixed, part.usual.values, strict=True):
        usual[n] = value
    assert part.filled([(value, value) for value in usual])[0] is ways(part)[-1]
    for n in (*part.usual.shared, *part.usual.fixed):
        filled, columns = part.filled([(value, "other" if n == m else value) for m, value in enumerate(usual)])
        assert filled is part
        assert len(columns) == len(part.columns)
