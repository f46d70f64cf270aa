"""A job's history is whole, though its ordinary events have no rows: the job's own row tells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from msgspec.structs import replace

from ficha.core.history import history, history_page, is_ordinary, without_quotes
from ficha.core.records import Event
from tests.core.scenarios import play
from tests.core.strategies import POLICY, START_AT, Workload, workloads
from tests.core.world import World

SHOP = """
    plan free
    open ana free credits=100
    submit ana j cost=5
"""


def told(world: World, job_id: str = "j") -> list[Event]:
    return [event for event in world.state.events if event.job_id == job_id]


def kept(world: World, job_id: str = "j") -> list[Event]:
    return world.store.history.get(job_id, [])


@given(workloads())
def test_the_row_of_a_job_and_what_is_kept_tell_all_that_ever_happened_to_it(workload: Workload) -> None:
    world = World(POLICY, now=START_AT)
    for step, group in workload:
        world.now += step
        world.run(*group)
    for job in world.state.jobs.values():
        everything, rows = told(world, job.id), kept(world, job.id)
        if job.removed_at is not None or job.payload_removed_at is not None:
            # What its events quoted of the content has left with it.
            everything, rows = (list(map(without_quotes, events)) for events in (everything, rows))
        assert history(job, rows) == everything
        assert [event.number for event in everything] == list(range(1, job.events + 1))
        for after in range(job.events + 2):
            earlier = sum(row.number <= after for row in rows)
            for limit in (1, 2, 100):
                page = [row for row in rows if row.number > after][:limit]
                assert history_page(job, page, earlier, after, limit) == everything[after : after + limit]


@pytest.mark.parametrize(
    ("life", "kinds"),
    [
        ("", []),
        ("claim gpu w1 -> j", []),
        ("claim gpu w1 -> j | start j e1", []),
        ("claim gpu w1 -> j | finish j e1 completed", []),
        ("claim gpu w1 -> j | start j e1 | finish j e1 completed", []),
        ("claim gpu w1 -> j | finish j e1 completed | finish j e1 completed", ["late"]),
        ("finish j e1 completed -> LEASE_LOST | claim gpu w1 -> j | finish j e1 completed", ["late"]),
        ("claim gpu w1 -> j | finish j e1 completed delivered=1 of=2", ["completed"]),
        ("claim gpu w1 -> j | finish j e1 retry", ["retried"]),
        ("cancel j", ["cancelled"]),
    ],
)
def test_only_what_is_out_of_the_ordinary_has_a_row(life: str, kinds: list[str]) -> None:
    world = play(SHOP + "\n".join(line.strip() for line in life.split("|")))
    assert [event.kind for event in kept(world)] == kinds
    assert history(world.state.jobs["j"], kept(world)) == told(world)


def test_a_claim_after_the_first_has_rows() -> None:
    world = play(
        SHOP
        + """
        claim gpu w1                      -> j
        finish j e1 retry
        +1h
        recover j
        claim gpu w2                      -> j
        finish j e2 completed
        """
    )
    assert [event.kind for event in kept(world)] == ["retried", "claimed", "started"]
    assert [event.kind for event in history(world.state.jobs["j"], kept(world))] == [
        *("submitted", "claimed", "retried", "claimed", "started", "completed")
    ]


def test_a_history_that_lacks_a_row_or_has_one_too_many_is_not_told() -> None:
    world = play(SHOP + "claim gpu w1 -> j\nnote j e1 text=one\nfinish j e1 completed")
    job, rows = world.state.jobs["j"], kept(world)
    assert [event.kind for event in rows] == ["log"]
    for broken in ([], [*rows, replace(rows[0], number=2), replace(rows[0], number=4)]):
        with pytest.raises(AssertionError, match="job j counts 5 events"):
            history(job, broken)
    assert not any(map(is_ordinary, rows))
