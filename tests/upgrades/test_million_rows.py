"""A migration of a million rows while jobs are made and run: nobody waits for it."""

import asyncio
import time

import asyncpg
import pytest

from ficha import Ficha
from ficha.store.postgres import PostgresStore
from tests.upgrades.later_release import with_steps
from tests.upgrades.test_rolling import Life

MILLION = 1_000_000
UP = """-- kind: additive
ALTER TABLE ficha.jobs ADD COLUMN IF NOT EXISTS shout text;
-- step: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_by_tool ON ficha.jobs (tool, id);
-- step: batches of 1000 by ficha.jobs (id)
UPDATE ficha.jobs SET shout = upper(tool) WHERE {batch} AND shout IS NULL;
"""
DOWN = """
-- step: concurrently
DROP INDEX CONCURRENTLY IF EXISTS ficha.jobs_by_tool;
-- step: transaction
ALTER TABLE ficha.jobs DROP COLUMN IF EXISTS shout;
"""
LONGEST_S = 10.0
"""The build and the batches take minutes; this is far above a call beside them, and far below waiting for either."""


class TimedLife(Life):
    longest_s = 0.0

    async def live(self) -> None:
        timing = asyncio.create_task(self._time())
        try:
            await super().live()
        finally:
            timing.cancel()

    async def _time(self) -> None:
        while True:
            before, began = self.done, time.monotonic()
            while self.done == before:  # noqa: ASYNC110 (what is measured must not know that it is)
                await asyncio.sleep(0.01)
            self.longest_s = max(self.longest_s, time.monotonic() - began)


@pytest.mark.req("B11")
@pytest.mark.long
@pytest.mark.timeout(1_800)
async def test_a_million_rows_are_migrated_while_jobs_run(
    postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await PostgresStore(postgres_url).migrate()
    async with Ficha(store=PostgresStore(postgres_url), sweep_by_itself=False) as app:
        await app.open_account("ana", credits=MILLION)
    async with Life.of(Ficha(store=PostgresStore(postgres_url))) as first:
        await first.lived()
    connection = await asyncpg.connect(postgres_url)
    try:
        columns = await connection.fetchval(
            "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute "
            "WHERE attrelid = 'ficha.jobs'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'id'"
        )
        await connection.execute(
            f"INSERT INTO ficha.jobs (id, {columns}) SELECT lpad(to_hex(made.n), 32, '0')::uuid, {columns} "
            "FROM (SELECT * FROM ficha.jobs WHERE status = 'completed' LIMIT 1) j, "
            f"generate_series(1, {MILLION}) AS made (n)",
            timeout=600,
        )
        store = with_steps(PostgresStore(postgres_url), UP, DOWN)
        took: dict[str, float] = {}
        async with TimedLife.of(Ficha(store=PostgresStore(postgres_url))) as life:
            assert isinstance(life, TimedLife)
            for way, target in (("up", None), ("down", store.migrations[-2].number)):
                await life.lived()
                before, began, life.longest_s = life.done, time.monotonic(), 0.0
                await store.migrate(target)
                took[way] = time.monotonic() - began
                took[f"{way}, longest wait for a job"] = life.longest_s
                took[f"{way}, jobs done"] = life.done - before
                if way == "up":
                    left = "SELECT count(*) FROM ficha.jobs WHERE shout IS NULL AND id <= $1::text::uuid"
                    assert await connection.fetchval(left, f"{MILLION:032x}", timeout=600) == 0
    finally:
        await connection.close()
    with capsys.disabled():
        print({name: round(value, 2) for name, value in took.items()})
    assert took["up, jobs done"] > 100
    assert max(took["up, longest wait for a job"], took["down, longest wait for a job"]) < LONGEST_S
