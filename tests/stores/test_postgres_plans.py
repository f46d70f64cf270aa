"""What the statements cost in PostgreSQL when a million jobs wait and as many have ended: no more than with none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import needs
from ficha.store.base import no_hints
from ficha.store.postgres import PostgresStore
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
    submits_alone,
    submits_of_all_sorts,
)
from tests.stores.million_rows import MILLION, POLICY, Population, Run, found, runner
from tests.stores.postgres_million_rows import INDEXES, NOT_YET_USABLE, fill, grow, keep_still, make_indexes
from tests.stores.postgres_plans import Watch, Work, watched
from tests.stores.postgres_setup import connected
from tests.support.postgres import Server, new_database
from tests.support.waiting import until

ROWS, PAGES = 8, 150
"""How many rows any step of a plan may handle, and how many pages a statement may look at, for each thing asked for."""
CATALOGUE = 300
"""Pages beside those: what a connection does for the first time, it looks up. The rows of such a look, at the columns
of all tables, are not counted."""
SMALL = 30_000
"""Enough for a walk over all of it to be noticed."""


def too_much(who: str, asks: int, works: Iterable[Work], whole: frozenset[str] = frozenset()) -> list[str]:
    """What is wrong with this work, in words."""
    return [
        f"{who} ({asks}): {work.rows} rows, {work.pages} pages, all of {set(work.whole) or 'nothing'}: "
        f"{' '.join(work.text.split())[:300]}"
        for work in works
        if (work.rows > ROWS * asks and "pg_attribute" not in work.text)
        or work.pages > PAGES * asks + CATALOGUE
        or not work.whole <= whole
    ]


async def run_samples(
    samples: Iterable[Sample], run: Run, watch: Watch, population: Population
) -> tuple[set[type[c.Command]], list[str]]:
    """Runs the samples and judges the work of each commit group; which commands there were, and what was wrong."""
    used: set[type[c.Command]] = set()
    wrong: list[str] = []

    async def run_and_judge(*group: c.Command) -> list[Any]:
        watch.take()
        outcomes = await run(*group)
        names = {type(command) for command in group}
        used.update(names)
        wrong.extend(too_much(" ".join(sorted(name.__name__ for name in names)), asked(group), watch.take()))
        return outcomes

    for sample in samples:
        await sample(run_and_judge, population)
    return used, wrong


def within(store: PostgresStore, connection: asyncpg.Connection) -> Run:
    """Commands inside a transaction of the caller's own, where the planner chooses freely."""

    async def run(*group: c.Command) -> list[Any]:
        done = await store.transact_within(connection, needs(group), lambda s: decide(s, group, POLICY), no_hints)
        return done.outcomes

    return run


async def ask(words: str, store: PostgresStore, watch: Watch, natures: dict[str, Nature]) -> list[str]:
    """Puts a question, and judges the work that it takes; what was wrong."""
    question = questions()[words]
    watch.take()
    await store.read(question.query)
    allowed = natures.get(words, nature(question.asks, ""))
    return too_much(words, allowed.asks, watch.take(), allowed.whole)


def natures(population: Population) -> dict[str, Nature]:
    """The questions that by their nature look at more rows than they answer with."""
    held = population.sum("leased", "lapsed", "awaiting", "whaled")
    waiting = population.sum("ready", "parked", "whale", "due", "later")
    everything = population.sum(*population.counts)
    running = "all that run are looked through, and there are as many as there are workers"
    newer = "those that wait and are newer are passed over"
    return {
        "held jobs of an account": nature(held, running, "leases"),
        "queued jobs": nature(held, running, "leases"),
        "queued jobs of a pool": nature(held, running, "leases"),
        "stuck jobs": nature(held, f"{running}: an index would be written with every heartbeat", "leases"),
        "what is due": nature(held, f"{running}, for those that are silent or too old", "leases"),
        **dict.fromkeys(("jobs of a batch", "batches", "batches of an account"), nature(held, running, "leases")),
        "jobs of a tool that has none": nature(
            everything, "an operator's question, for which there is no index", "jobs"
        ),
        "dead letters of an account": nature(population.counts["dead"], "the account's among all dead letters"),
        "dead letters": nature(everything, newer),
        "ended jobs": nature(everything, newer),
        "how far commits go": nature(100, "the locks of the whole server are looked through"),
        "files that jobs made": nature(everything, "an operator's question, for which there is no index", "files"),
        "what is overdue": nature(held, running, "leases"),
        "who waits longest": nature(held, running, "leases"),
        "providers": nature(50, "all of them", "provider_states", "provider_outages"),
        "depth of a pool": nature(held, "counts what is held, as every claim does"),
        "pools": nature(waiting, "counts what is ready and parked in each", "parked"),
        "pools without what waits": nature(held, "counts what is held in each", "leases"),
        "what a worker holds": nature(held, "counts what one of them holds", "leases"),
        "workers": nature(
            held, "what became of runs is added up, and what is held is counted", "workers", "worker_counts", "leases"
        ),
        "figures": nature(waiting, "counts all that is active", "ready", "parked", "leases", "checkpoints"),
        "the queue counted": nature(everything, "counts what waits, now and then", "ready", "parked", "jobs"),
        "what alerts are made of": nature(held, running, "leases"),
        "the look at all that waits": nature(waiting, "one look serves every position until the next"),
        "a part for verify": nature(
            everything,
            "the planner may read tables whole for it",
            "leases",
            "checkpoints",
            "contents",
            "steps",
            "deliveries",
        ),
    }


@pytest.mark.req("B1")
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_with_a_million_jobs_waiting_no_statement_does_more_work(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    population = Population(MILLION)
    async with new_database(postgres_server) as url:
        await fill(url, population)
        async with watched(url, monkeypatch) as (store, watch):
            used, wrong = await run_samples(SAMPLES, runner(store), watch, population)
            assert used == set(c.Command.__subclasses__()) - NOT_SAMPLED
            connection = await asyncpg.connect(url)
            await connection.execute("BEGIN")
            wrong += (await run_samples([submits_alone], within(store, connection), watch, population))[1]
            await connection.execute("ROLLBACK")
            await store.committed(str(uuid4()), 1)
            await store.notify(["gpu"])
            wrong += too_much("marker and hint", 1, watch.take())
            for words in questions():
                wrong += await ask(words, store, watch, natures(population))
            assert await watch.overlooked() == []
            await connection.close()
    assert wrong == []


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_a_plan_that_was_made_on_empty_tables_and_kept_does_for_full_ones(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(postgres_url) as plain, watched(postgres_url, monkeypatch) as (store, watch):
        # First it is found out what is sent.
        await keep_still(plain)
        await move_in(store, plain)
        await run_samples(SAMPLES, runner(store), watch, Population(SMALL))
        [writer] = {connection for connection, text in watch.sent if "INSERT" in text and not connection.is_closed()}
        sent = {text: values for (connection, text), values in watch.sent.items() if connection is writer}
        # The tables that others make on this server meanwhile can make a connection forget its plans.
        for _ in range(5):
            await store.migrate(0)
            await store.migrate()
            await keep_still(plain)
            # Then the plans are made, while the tables are empty.
            made = {text: await writer.plan(text, values) for text, values in sent.items()}
            await move_in(store, plain)
            watch.costs.clear()
            _, wrong = await run_samples(SAMPLES, runner(store), watch, Population(SMALL))
            # Which way a group takes also depends on the clock, so a few of them may not have been sent again.
            again = {text: watch.costs[writer, text] for text in sent if (writer, text) in watch.costs}
            assert len(again) > 0.8 * len(sent)
            if again == {text: made[text] for text in again}:
                break
        else:
            pytest.fail("plans were made anew, each time")
    assert wrong == []


async def move_in(store: PostgresStore, plain: asyncpg.Connection) -> None:
    """A small population, without a word to the planner."""
    await found(runner(store))
    await grow(plain, Population(SMALL))


async def test_an_index_is_not_used_while_an_older_transaction_is_under_way_anywhere(
    postgres_server: Server, postgres_url: str
) -> None:
    """What the test below would otherwise fail by, now and then: whatever else ran on the server at that moment."""
    async with (
        connected(postgres_server.url()) as elsewhere,
        connected(postgres_url) as plain,
        connected(postgres_url) as other,
    ):
        await elsewhere.execute("BEGIN; SELECT pg_current_xact_id()")
        await plain.execute(
            "CREATE TABLE things (id int, n int); INSERT INTO things VALUES (1, 1); UPDATE things SET n = 2"
        )
        making = asyncio.create_task(make_indexes(plain, "CREATE INDEX ON things (id)"))
        await until(lambda: other.fetchval(NOT_YET_USABLE))
        await other.execute("SET enable_seqscan = off")
        assert "Seq Scan" in await other.fetchval("EXPLAIN SELECT FROM things WHERE id = 1")
        assert not making.done()
        await elsewhere.execute("COMMIT")
        await making
        assert "Index" in await other.fetchval("EXPLAIN SELECT FROM things WHERE id = 1")


NEEDED_BY: dict[str, Sample | str] = {
    "ready_in_order": claims,
    "leases_of_pool": claims,
    "parked_in_order": a_whale_at_its_limit,
    "reservations_active": submits_of_all_sorts,
    "jobs_of_account": "jobs of an account",
    "jobs_of_session": "a search of a session",
    "jobs_of_correlation": "a search of a correlation id",
    "jobs_of_api_key": "a search of a key",
    "reservations_of_account": "reservations of an account",
    "hooks_due": "hooks that are due",
    "leases_to_poll": "providers to ask",
    "reservations_ended": "what is due",
    "audit_of_target": "audit lines of a target",
    "audit_of_actor": "audit lines of an actor",
    "files_of_account": "files of an account",
    "files_of_job": "files of some jobs",
    "files_of_reservation": "files of some reservations",
    "files_expiring": "files that are due",
    "deliveries_due": "messages that are due",
    "deliveries_of_job": "messages that are due",
    "deliveries_of_owner": "messages of an account",
    "deliveries_ended": "old messages",
    **dict.fromkeys(("parked_due", "parked_waiting", "ready_waiting", "ready_ageing", "keys_expiring"), "what is due"),
}


async def test_a_statement_that_has_lost_its_index_is_found_out(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    population = Population(SMALL)
    await fill(postgres_url, population)
    async with connected(postgres_url) as plain, watched(postgres_url, monkeypatch) as (store, watch):

        async def look(needed_by: Sample | str) -> list[str]:
            if isinstance(needed_by, str):
                return await ask(needed_by, store, watch, natures(population))
            return (await run_samples([needed_by], runner(store), watch, population))[1]

        indexes = dict(await plain.fetch(INDEXES))
        for name, needed_by in NEEDED_BY.items():
            assert await look(needed_by) == []
            await plain.execute(f"DROP INDEX ficha.{name}")
            assert await look(needed_by) != [], f"nobody misses {name}"
            await make_indexes(plain, indexes[name])
