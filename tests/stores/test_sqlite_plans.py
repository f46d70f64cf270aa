"""What the statements cost in SQLite when a million jobs wait and as many have ended: no more than with none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import pytest

from ficha.core import commands as c
from ficha.store.sqlite import SqliteStore
from tests.stores.command_samples import (
    NOT_SAMPLED,
    SAMPLES,
    Nature,
    Sample,
    a_whale_at_its_limit,
    asked,
    claims,
    nature,
    questions,
)
from tests.stores.million_rows import MILLION, Population, runner
from tests.stores.sqlite_million_rows import INDEXES, fill
from tests.stores.sqlite_plans import Watch, Work, scans_and_sorts, watched

STEPS = 600
"""How many steps of SQLite's machine a statement may take for each thing asked for."""
ROWS = 8
"""How many rows of a scan it may pass over, likewise."""
SMALL = 30_000


def too_much(who: str, asks: int, works: list[Work]) -> list[str]:
    return [
        f"{who} ({asks}): {work.steps} steps, {work.scanned} rows scanned, by {work.runs} of: {work.text}"
        for work in works
        if work.steps > STEPS * asks or work.scanned > ROWS * asks
    ]


async def run_samples(
    samples: Iterable[Sample], store: SqliteStore, watch: Watch, population: Population
) -> tuple[set[type[c.Command]], list[str]]:
    """Runs the samples and judges the work of each commit group; which commands there were, and what was wrong."""
    used: set[type[c.Command]] = set()
    texts: set[str] = set()
    wrong: list[str] = []
    run, held = runner(store), population.sum("leased", "lapsed", "awaiting", "whaled")

    async def run_and_judge(*group: c.Command) -> list[Any]:
        watch.take()
        outcomes = await run(*group)
        works = watch.take()
        names = {type(command) for command in group}
        used.update(names)
        texts.update(work.text for work in works)
        who = " ".join(sorted(name.__name__ for name in names))
        for work in works:
            # Slots are counted: as many as are busy.
            asks = held if "count(*) FROM leases" in work.text else asked(group)
            wrong.extend(too_much(who, asks, [work]))
        return outcomes

    for sample in samples:
        await sample(run_and_judge, population)
    # A connection that was asked before would answer from memory.
    db = apsw.Connection(store._path)
    wrong += [f"{found}: {text}" for text in texts if (found := scans_and_sorts(db, text))]
    db.close()
    return used, wrong


async def ask(words: str, store: SqliteStore, watch: Watch, natures: dict[str, Nature]) -> list[str]:
    """Puts a question, and judges the work that it takes; what was wrong."""
    question = questions()[words]
    watch.take()
    await store.read(question.query)
    return too_much(words, natures[words].asks if words in natures else question.asks, watch.take())


def natures(population: Population) -> dict[str, Nature]:
    """The questions that by their nature look at more rows than they answer with."""
    held = population.sum("leased", "lapsed", "awaiting", "whaled")
    waiting = population.sum("ready", "parked", "whale", "due", "later")
    everything = population.sum(*population.counts)
    running = "all that run are looked through, and there are as many as there are workers"
    walked = "all that wait are walked through by their ids"
    return {
        "held jobs of an account": nature(held, running),
        "stuck jobs": nature(held, running),
        "what is due": nature(held, running),
        "queued jobs of an account": nature(waiting, walked),
        "queued jobs of the whale": nature(waiting, walked),
        "queued jobs of a batch": nature(waiting, walked),
        "ended jobs": nature(everything, "those that wait and are newer are passed over"),
        "jobs of a tool that has none": nature(everything, "an operator's question, for which there is no index"),
        "files that jobs made": nature(everything, "an operator's question, for which there is no index"),
        "what is overdue": nature(held, running),
        "who waits longest": nature(held, running),
        "providers": nature(50, "all of them", "provider_states", "provider_outages"),
        "depth of a pool": nature(held, "counts what is held, as every claim does"),
        "pools": nature(waiting, "counts what is ready and parked in each"),
        "pools without what waits": nature(held, "counts what is held in each"),
        "workers": nature(held, "counts what each of them holds"),
        "what a worker holds": nature(held, "counts what one of them holds"),
        "figures": nature(waiting, "counts all that is active"),
        "the queue counted": nature(waiting, "counts what waits, now and then"),
        "what alerts are made of": nature(held, running),
        "the look at all that waits": nature(waiting, "one look serves every position until the next"),
        "a part for verify": nature(everything, "steps and contents are read whole for it"),
    }


@pytest.mark.req("B1")
@pytest.mark.parametrize(
    "size", [pytest.param(2 * SMALL, id="small"), pytest.param(MILLION, marks=pytest.mark.long, id="million")]
)
@pytest.mark.timeout(400)
async def test_however_many_jobs_wait_no_statement_does_more_work(tmp_path: Path, size: int) -> None:
    path, population = tmp_path / "ficha.db", Population(size)
    wrong: list[str] = []
    try:
        await fill(str(path), population)
        for is_analyzed in (False, True):
            if is_analyzed:
                # SQLite makes no statistics by itself, but somebody may, and they change its mind.
                apsw.Connection(str(path)).execute("PRAGMA analysis_limit = 1000; ANALYZE")
            async with watched(str(path)) as (store, watch):
                used, found = await run_samples(SAMPLES, store, watch, population)
                assert used == set(c.Command.__subclasses__()) - NOT_SAMPLED
                await store.committed(str(uuid4()), 1)
                # No index has the markers: what the last day has left is walked through, and only after a disk failed.
                wrong += [*found, *too_much("marker", population.size, watch.take())]
                for words in questions():
                    wrong += await ask(words, store, watch, natures(population))
    finally:
        # The folder of a test outlives it.
        path.unlink()
    assert wrong == []


NEEDED_BY: dict[str, Sample | str] = {
    "ready_in_claim_order": claims,
    "leases_by_pool": claims,
    "leases_to_poll": "providers to ask",
    "parked_in_claim_order": a_whale_at_its_limit,
    "jobs_by_account": "jobs of an account",
    "jobs_by_batch": "a batch",
    "jobs_by_session": "a search of a session",
    "jobs_by_correlation": "a search of a correlation id",
    "jobs_by_api_key": "a search of a key",
    "jobs_dead": "dead letters",
    "reservations_by_account": "reservations of an account",
    "audit_by_target": "audit lines of a target",
    "audit_by_actor": "audit lines of an actor",
    "files_of_account": "files of an account",
    "files_of_job": "files of some jobs",
    "files_of_reservation": "files of some reservations",
    "files_expiring": "files that are due",
    "deliveries_due": "messages that are due",
    "deliveries_of_job": "messages that are due",
    "deliveries_of_owner": "messages of an account",
    "deliveries_ended": "old messages",
    **dict.fromkeys(("parked_due", "parked_waiting", "ready_waiting", "ready_ageing", "keys_by_expiry"), "what is due"),
}


async def test_a_statement_that_has_lost_its_index_is_found_out(tmp_path: Path) -> None:
    path, population = str(tmp_path / "ficha.db"), Population(SMALL)
    await fill(path, population)
    db = apsw.Connection(path)
    indexes = dict(db.execute(INDEXES))
    async with watched(path) as (store, watch):

        async def look(needed_by: Sample | str) -> list[str]:
            if isinstance(needed_by, str):
                return await ask(needed_by, store, watch, natures(population))
            return (await run_samples([needed_by], store, watch, population))[1]

        for name, needed_by in NEEDED_BY.items():
            assert await look(needed_by) == []
            db.execute(f"DROP INDEX {name}")
            assert await look(needed_by) != [], f"nobody misses {name}"
            db.execute(indexes[name])
