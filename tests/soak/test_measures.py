"""The judge of the soak: what is flat passes, what grows does not."""

import os

from tests.soak.measures import Sample, judged, memory_mb


def samples(growing: float) -> list[Sample]:
    return [Sample(float(at), 300.0 + growing * at + at % 2, 10.0, 12 + at % 2) for at in range(0, 600, 5)]


def test_what_stays_where_it_is_counts_as_flat_and_what_grows_does_not() -> None:
    assert [one.is_flat for one in judged(samples(0.0))] == [True, True, True]
    leaking = {one.name: one.is_flat for one in judged(samples(0.5))}
    assert leaking == {"memory_mb": False, "tables_mb": True, "connections": True}


def test_what_grew_during_the_warm_up_does_not_count() -> None:
    warming = [Sample(float(at), min(900.0, 5.0 * at), 10.0, 12) for at in range(0, 600, 5)]
    assert all(one.is_flat for one in judged(warming))


def test_the_memory_of_processes_is_read_and_those_that_ended_count_nothing() -> None:
    assert memory_mb([os.getpid(), 2**22 + 1]) > 5
