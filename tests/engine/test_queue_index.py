"""A look says the same as a plain list of who waits, whatever its columns look like and whatever was done since."""

from __future__ import annotations

from bisect import bisect_left
from unittest.mock import patch
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from ficha.engine import queue_index
from ficha.engine.queue_index import Keys, Queue
from ficha.store import waiting_columns
from ficha.store.waiting_columns import Key, Lines
from tests.engine.waiting_columns import lines_of

RANKS = (-(2**63), -1, 0, 7, 2**63 - 1)
IDS = tuple(str(UUID(int=high << 64 | low)) for high in (0, 5, 2**64 - 1) for low in (0, 1, 2**64 - 1))
KEYS = tuple(sorted((rank, job_id) for rank in RANKS for job_id in IDS))
OWNERS = ("Z", "a", "ab", "b", "é", "\uffee", "\U00010300")

keys = st.sampled_from(KEYS)
places = st.tuples(st.sampled_from(OWNERS), keys)
sizes = st.sampled_from((1, 2, 3, 7, 1_000))


def by_owner(rows: set[tuple[str, Key]]) -> dict[str, list[Key]]:
    return {owner: sorted(key for other, key in rows if other == owner) for owner in sorted({row[0] for row in rows})}


@given(rows=st.sets(places, max_size=60), page=sizes, chunk=sizes)
def test_columns_find_what_a_list_finds(rows: set[tuple[str, Key]], page: int, chunk: int) -> None:
    who = by_owner(rows)
    with patch.object(waiting_columns, "CHUNK", chunk):
        found = lines_of(who, page)
        assert (found.jobs(), len(found)) == (who, len(rows))
        for owner in (*OWNERS, "nobody"):
            line, waiting = found.line(owner), who.get(owner, [])
            assert len(line) == len(waiting)
            for key in KEYS:
                assert found.find(line, key) == (bisect_left(waiting, key), key in waiting)
            for job_id in IDS:
                for part in (line, line[1:], line[:2]):
                    has = any(found.key(index)[1] == job_id for index in part)
                    assert found.has_id(part, job_id) == has
    if rows:
        owner = max(who)
        assert found.last == (owner, *who[owner][-1])


def test_columns_without_a_job_are_before_every_job() -> None:
    assert Lines().last < ("Z", *KEYS[0])
    assert Lines().find(Lines().line("Z"), KEYS[0]) == (0, False)
    assert Lines() == lines_of({})


@given(
    seen=st.sets(places, max_size=20),
    acts=st.lists(st.tuples(st.sampled_from(("add", "remove")), places), max_size=60),
    runs=st.sampled_from((1, 2, 16)),
)
def test_a_queue_that_is_followed_is_the_queue_that_there_is(
    seen: set[tuple[str, Key]], acts: list[tuple[str, tuple[str, Key]]], runs: int
) -> None:
    with patch.object(queue_index, "RUNS", runs):
        queue, there = Queue(lines_of(by_owner(seen))), set(seen)
        for act, (owner, key) in acts:
            if act == "add":
                queue.add(owner, key)
                there.add((owner, key))
            else:
                queue.remove(owner, key)
                there.discard((owner, key))
        for owner in OWNERS:
            waiting = by_owner(there).get(owner, [])
            assert queue.length(owner) == len(waiting)
            for key in KEYS:
                assert queue.find(owner, key) == (bisect_left(waiting, key), key in waiting)


@given(
    acts=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30),
    runs=st.sampled_from((1, 2, 16)),
)
@example(acts=[(True, 0), (True, 2), (True, 1), (False, 2), (True, 1)], runs=16)
def test_keys_in_runs_are_a_set_in_order(acts: list[tuple[bool, int]], runs: int) -> None:
    with patch.object(queue_index, "RUNS", runs):
        kept, there = Keys(), set()
        for is_new, number in acts:
            key = (number, IDS[0])
            if is_new:
                kept.add(key)
                there.add(key)
            else:
                kept.remove(key)
                there.discard(key)
            assert len(kept) == len(there)
        for number in range(6):
            key = (number, IDS[0])
            assert kept.find(key) == (sum(other < key for other in there), key in there)


def test_jobs_of_several_priorities_are_appended_and_not_squeezed_in() -> None:
    """A list that everybody moves along in would be slow when it is long."""
    queue = Queue(Lines())
    for turn in range(1_000):
        for priority in (50, 10, 30):
            queue.add("gpu", (priority * 10**6 + turn, IDS[0]))
    runs = queue._deltas["gpu"].added._runs
    assert len(runs) == 3
    assert [run == sorted(run) for run in runs] == [True] * 3
    assert queue.find("gpu", (30 * 10**6 + 500, IDS[0])) == (1_500, True)
