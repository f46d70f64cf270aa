"""The conformance suite on every store that Ficha brings."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ficha.store.memory import MemoryStore
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from ficha.testing import Driver, ManualClock, StoreConformance

Suite = StoreConformance

# What the suite proves about the rules on real databases, and not only about the rows.
PROVEN = {
    Suite.test_a_pools_slots_hold_against_claims_at_once: ["A1"],
    Suite.test_ready_candidates_come_in_claim_order_with_payload_and_checkpoint: ["A2"],
    Suite.test_ends_told_at_once_end_a_job_once: ["A5"],
    Suite.test_refunds_come_once_however_often_an_end_is_told: ["A5", "A6"],
    Suite.test_nothing_is_written_when_the_database_refuses_a_row: ["A6"],
    Suite.test_a_job_reads_back_the_same_in_every_place: ["B1", "E1"],
    Suite.test_workers_that_claim_at_once_never_get_the_same_job: ["B3"],
    Suite.test_of_equal_contents_one_is_computed_and_answers_the_others: ["B7"],
    Suite.test_equal_contents_that_are_claimed_at_once_are_computed_once: ["B7"],
    Suite.test_every_run_is_counted_as_begun_and_by_how_it_ended: ["B8"],
    Suite.test_runs_that_others_end_are_their_workers: ["B8"],
    Suite.test_workers_that_begin_and_end_at_once_are_all_counted: ["B8"],
    Suite.test_what_a_worker_holds_and_what_of_it_is_stuck: ["B8"],
    Suite.test_a_repeated_submit_finds_its_job_wherever_it_is_now: ["C1"],
    Suite.test_repeats_of_a_submit_at_once_make_one_job: ["C1"],
    Suite.test_of_those_that_race_for_the_last_slot_one_gets_it: ["C2"],
    Suite.test_a_refused_command_does_not_fail_its_neighbours: ["D1"],
    Suite.test_credits_are_never_spent_twice_by_submits_at_once: ["D1"],
    Suite.test_ranks_order_from_the_lowest_priority_to_the_highest: ["D4"],
    Suite.test_a_job_that_moves_often_reads_back_the_same_after_each_move: ["E2"],
    Suite.test_the_first_result_of_a_step_wins: ["E3"],
    Suite.test_ten_thousand_jobs_are_submitted_run_and_cancelled_as_one_batch: ["E6"],
}
for proof, requirements in PROVEN.items():
    pytest.mark.req(*requirements)(proof)
# `tests/app/test_batches.py` does the same by the operations.
pytest.mark.long(Suite.test_ten_thousand_jobs_are_submitted_run_and_cancelled_as_one_batch)


class TestMemory(StoreConformance):
    @pytest.fixture
    async def driver(self) -> AsyncIterator[Driver]:
        clock = ManualClock()
        store = MemoryStore(clock=clock)
        await store.open()
        yield Driver(store, clock)
        await store.close()


class TestSqlite(StoreConformance):
    @pytest.fixture
    async def driver(self, tmp_path: Path) -> AsyncIterator[Driver]:
        clock = ManualClock()
        store = SqliteStore(tmp_path / "ficha.db", clock=clock)
        await store.migrate()
        await store.open()
        yield Driver(store, clock)
        await store.close()


class TestPostgres(StoreConformance):
    @pytest.fixture
    async def driver(self, migrated_url: str) -> AsyncIterator[Driver]:
        clock = ManualClock()
        store = PostgresStore(migrated_url, clock=clock)
        await store.migrate()
        await store.open()
        yield Driver(store, clock)
        await store.close()
