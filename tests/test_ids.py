"""Ids sort as the things were made."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from ficha import ids


def test_ids_are_version_7_and_rise_within_a_process() -> None:
    made = [ids.new_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(uuid.UUID(one).version == 7 and uuid.UUID(one).variant == uuid.RFC_4122 for one in made)


def test_ids_made_by_several_threads_are_all_different() -> None:
    with ThreadPoolExecutor(4) as threads:
        made = [one for part in threads.map(lambda _: [ids.new_id() for _ in range(5_000)], range(4)) for one in part]
    assert len(set(made)) == len(made)


def test_ids_rise_also_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ids.new_id()
    monkeypatch.setattr(ids.time, "time_ns", lambda: 0)
    assert ids.new_id() > first
