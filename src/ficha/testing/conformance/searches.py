"""Searches among all jobs: every condition, alone and together, and parts that follow each other without a gap."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

from ...core import commands as c
from ...core.outcomes import Submitted
from ...core.records import Job, Leased
from ...store.base import CountJobs, JobMatch, SearchJobs, SearchPart, lowered, without_texts
from ..driver import Driver
from .scenes import finish, lease, new_job, one_in_each_place, submit

KEYS: Final = ("0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10", "0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a11")
"""Two API keys."""
SINGLE: dict[str, tuple[Any, ...]] = {
    "accounts": (("ana",), ("ana", "bob"), ("nobody",)),
    "tools": (("train",), ("train", "upscale")),
    "pools": (("tpu",), ("gpu", "cpu")),
    "plans": (("free",), ("pro", "ageing")),
    "statuses": (
        *(("queued",), ("starting",), ("running",), ("completed",), ("failed",), ("cancelled",)),
        *(("queued", "running"), ("starting", "running"), ("failed", "starting"), ("cancelled", "queued", "running")),
        ("queued", "starting", "running"),
    ),
    "sessions": (("s1",), ("s1", "s2"), ("S1",)),
    "correlation_ids": (("c1",), ("c2", "c1")),
    "keys": ((KEYS[0],), (KEYS[1], KEYS[0])),
    "errors": (("out of memory",), ("out", "again"), ("100%_",), ("caf\u00c9",), ("caf\u00e9",)),
    "is_dead": (True, False),
    "is_stuck": (True, False),
}
"""For each field of a match, values to search for."""


class SearchConformance:
    """Jobs are found by every condition."""

    async def test_a_search_finds_jobs_by_each_condition_and_by_two_together(self, driver: Driver) -> None:
        stuck_before_at = await _scene(driver)
        asked = [{name: value} for name, values in SINGLE.items() for value in values]
        asked += [{a: SINGLE[a][0], b: SINGLE[b][0]} for a, b in combinations(SINGLE, 2)]
        batch = next(job.batch_id for job in driver.expected.jobs.values() if job.batch_id is not None)
        ids = sorted(driver.expected.jobs)
        asked += [{"batches": (batch,)}, {"batches": (batch, driver.new_id()), "accounts": ("ana",)}]
        asked += [{"ids": (ids[3], ids[7], driver.new_id())}, {"ids": (ids[3],), "statuses": ("queued",)}]
        asked += [{"since_id": ids[4]}, {"until_id": ids[4]}, {"since_id": ids[2], "until_id": ids[9]}, {}]
        asked += [{"since_id": ids[2], "until_id": ids[9], "accounts": ("ana",)}]
        for terms in asked:
            query = SearchJobs(JobMatch(**terms), stuck_before_at, limit=1_000)
            expected = [job for job in _newest(driver) if _fits(query, job)]
            found = await driver.read(query)
            assert found.jobs == [without_texts(job) for job in expected], terms
            assert found.stopped is None
            counted = await driver.read(CountJobs(query))
            assert (counted.count, counted.stopped) == (len(expected), None), terms
            assert counted.credits == sum(job.spec.cost for job in expected)

    async def test_parts_of_a_search_follow_each_other_and_each_looks_at_so_many_jobs(self, driver: Driver) -> None:
        stuck_before_at = await _scene(driver)
        for terms in (
            *({}, {"statuses": ("failed",)}, {"statuses": ("queued", "running")}, {"accounts": ("ana", "bob")}),
            *({"sessions": ("s1", "s2")}, {"tools": ("nothing",)}, {"is_dead": True}, {"errors": ("memory",)}),
        ):
            match = JobMatch(**terms)
            expected = [job.id for job in _newest(driver) if _fits(SearchJobs(match, stuck_before_at), job)]
            for limit, searched in ((1, 100), (3, 100), (2, 5), (100, 4), (100, 1)):
                found: list[str] = []
                part = SearchPart([], 0, "")
                while part.stopped is not None:
                    query = SearchJobs(match, stuck_before_at, part.stopped or None, limit, searched)
                    part = await driver.read(query)
                    found += [job.id for job in part.jobs]
                    assert len(part.jobs) <= limit
                    assert part.looked_at <= max(searched, 3)
                assert found == expected, (terms, limit, searched)

    async def test_a_search_tells_how_many_jobs_it_looked_at(self, driver: Driver) -> None:
        await _scene(driver)
        newest = [job.id for job in _newest(driver)]
        none = JobMatch(tools=("nothing",))
        assert await driver.read(SearchJobs(none)) == SearchPart([], len(newest), None)
        assert await driver.read(SearchJobs(none, searched=5)) == SearchPart([], 5, newest[4])
        assert await driver.read(SearchJobs(none, before=newest[-2], searched=5)) == SearchPart([], 1, None)
        first = await driver.read(SearchJobs(JobMatch(), limit=3))
        assert (first.looked_at, first.stopped) == (3, newest[2])
        theirs = [job for job in _newest(driver) if job.account_id == "ana"]
        assert (await driver.read(SearchJobs(JobMatch(accounts=("ana",), tools=("nothing",))))).looked_at == len(theirs)
        counted = await driver.read(CountJobs(SearchJobs(JobMatch(), limit=4)))
        assert (counted.count, counted.looked_at, counted.stopped) == (4, 4, newest[3])


async def _scene(driver: Driver) -> int:
    """Jobs in every place, some with sessions and other words; returns the time before which a heartbeat is old."""
    await one_in_each_place(driver)
    for number in range(4):
        words = {"session": f"s{number % 2 + 1}", "correlation_id": f"c{number % 2 + 1}"}
        await submit(driver, "bob" if number == 3 else "ana", tool="train", **words)
    await driver.run(c.DeclarePool("npu", None))
    for error in ("Out of Memory in caf\u00e9", "CAF\u00c9 closed", "100%_ sure"):
        held = await lease(driver, pool="npu", session="s1")
        await finish(driver, held, c.Failed(error))
    batch = (new_job(driver.new_id(), tool="train"), new_job(driver.new_id()))
    await driver.one(c.Submit("ana", batch, batch_id=driver.new_id(), submitted_by=KEYS[0]), Submitted)
    by_another = c.Submit("bob", (new_job(driver.new_id(), tool="train"),), submitted_by=KEYS[1])
    await driver.one(by_another, Submitted)
    return driver.clock() - 250_000


def _newest(driver: Driver) -> list[Job]:
    return sorted(driver.expected.jobs.values(), key=lambda job: job.id, reverse=True)


def _fits(query: SearchJobs, job: Job) -> bool:
    match = query.match
    of_job: dict[str, Any] = {
        "ids": job.id,
        "accounts": job.account_id,
        "tools": job.spec.tool,
        "pools": job.spec.pool,
        "plans": job.plan,
        "statuses": job.status,
        "sessions": job.spec.session,
        "batches": job.batch_id,
        "correlation_ids": job.spec.correlation_id,
        "keys": job.submitted_by,
    }
    is_silent = isinstance(job.place, Leased) and job.place.heartbeat_at < query.stuck_before_at
    return (
        all(not getattr(match, name) or value in getattr(match, name) for name, value in of_job.items())
        and all(text in lowered(job.error or "") for text in map(lowered, match.errors))
        and match.is_dead in (None, job.dead_at is not None)
        and match.is_stuck in (None, is_silent)
        and (match.since_id is None or job.id >= match.since_id)
        and (match.until_id is None or job.id < match.until_id)
    )
