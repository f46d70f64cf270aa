"""Set-up for the suite: commands with default values, and one job in every place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, get_args

from msgspec import Struct
from msgspec.structs import fields

from ...core import commands as c
from ...core.outcomes import Claimed, ClaimedJob, Finished, Recovered, Submitted
from ...core.records import JobSpec
from ..driver import Driver

SPEC_TEXTS: Final = tuple(
    field.name
    for field in fields(JobSpec)
    if str in (get_args(field.type) or (field.type,)) and field.name != "part_of"  # An id.
)
"""The fields of a job's spec that are text."""


def new_job(job_id: str, **changes: Any) -> c.NewJob:
    """A job to submit: the usual one, but for these fields of its spec or its own."""
    spec: dict[str, Any] = {"tool": "upscale", "pool": "gpu", "cost": 5}
    others: dict[str, Any] = {"payload": '{"image": "x"}'}
    for name, value in changes.items():
        (spec if name in JobSpec.__struct_fields__ else others)[name] = value
    return c.NewJob(job_id, JobSpec(**spec), **others)


@contextmanager
def raises(kind: type[Exception]) -> Iterator[list[Exception]]:
    """Checks that the block raises this error, and puts it into the list."""
    caught: list[Exception] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    assert caught, f"{kind.__name__} was not raised"


async def open_house(driver: Driver) -> None:
    """Three accounts (ana has no limits, bob may run one job, eva's jobs age) and two pools."""
    await driver.run(
        c.OpenAccount("ana", "pro", 1_000),
        c.OpenAccount("bob", "free", 1_000),
        c.OpenAccount("eva", "ageing", 1_000),
        c.DeclarePool("gpu", None),
        c.DeclarePool("cpu", 100),
    )


async def submit(driver: Driver, account_id: str = "ana", **changes: Any) -> str:
    """Submits one job, by default to the pool gpu, and returns its id."""
    job = new_job(driver.new_id(), **changes)
    return (await driver.one(c.Submit(account_id, (job,)), Submitted)).job_id


async def lease(driver: Driver, account_id: str = "ana", *, worker: str = "w1", **changes: Any) -> ClaimedJob:
    """Submits one job, by default to the pool cpu, and claims it. Nothing else may be ready there."""
    job_id = await submit(driver, account_id, **({"pool": "cpu"} | changes))
    pool = driver.expected.jobs[job_id].spec.pool
    (held,) = (await driver.one(c.Claim(worker, (pool,)), Claimed)).leases
    assert held.job.id == job_id
    return held


async def finish(driver: Driver, held: ClaimedJob, ending: c.Ending) -> Finished:
    return await driver.one(c.Finish(held.job.id, ending, held.epoch), Finished)


def see(name: str, **changes: Any) -> c.RegisterWorker:
    """The registration of a worker."""
    usual: dict[str, Any] = {"host": "host", "pid": 7, "pools": ("gpu", "cpu"), "concurrency": 10, "version": "1.0"}
    return c.RegisterWorker(name, **(usual | {"heartbeat_ms": 10_000} | changes))


def api_key(key_id: str, name: str = "ci", **changes: Any) -> c.CreateApiKey:
    usual: dict[str, Any] = {"hint": f"hint of {key_id}", "digest": f"digest of {key_id}", "scope": "admin"}
    return c.CreateApiKey(key_id, name, **(usual | changes))


class Places(Struct, frozen=True):
    """The ids of jobs, by their place or their end."""

    ready: str
    ageing: str
    parked: str
    delayed: str
    starting: str
    running: str
    awaiting: str
    retried: str
    recovered: str
    completed: str
    partial: str
    reused: str
    failed: str
    dead: str
    discarded: str
    requeued: str
    cancelled: str


async def one_in_each_place(driver: Driver) -> Places:
    """Opens accounts and pools and brings one job to each place, at several instants."""
    await open_house(driver)
    ended = await _ended(driver)
    retried = await lease(driver, max_attempts=3, backoff_ms=500_000, backoff_max_ms=500_000)
    await finish(driver, retried, c.Failed("try again"))
    recovered = await lease(driver)
    driver.clock.advance(driver.policy.lease_ms / 1_000)
    assert (await driver.one(c.Recover(recovered.job.id), Recovered)).act == "requeued"
    driver.clock.advance(0.000_001)
    # The recovered job is ready in cpu, where `lease` claims; so these go to other pools.
    await driver.run(c.DeclarePool("tpu", 3))
    starting = await lease(driver, pool="tpu", worker="w2")
    running = await lease(driver, pool="tpu")
    awaiting = await lease(driver, pool="tpu")
    driver.clock.advance(0.25)
    await driver.run(
        c.Heartbeat(running.job.id, running.epoch, starts=True),
        c.SaveCheckpoint(running.job.id, running.epoch, "HALF", 50, '{"page": 3}'),
        c.SaveStep(running.job.id, running.epoch, "download", '{"bytes": 12}'),
        c.Finish(awaiting.job.id, c.AcceptedByProvider("ref-1", poll_ms=30_000), awaiting.epoch),
        c.NoteCallback(awaiting.job.id, 0, "unsigned", "ref-2", {"user-agent": "p"}, "[1]"),
    )
    ready = await submit(driver)
    ageing = await submit(driver, "eva")
    await submit(driver, "bob", max_wait_ms=3_600_000)
    parked = await submit(driver, "bob", max_wait_ms=3_600_000)
    delayed = new_job(driver.new_id(), max_wait_ms=60_000)
    await driver.one(c.Submit("ana", (delayed,), delay_ms=86_400_000), Submitted)
    return Places(
        ready=ready,
        ageing=ageing,
        parked=parked,
        delayed=delayed.id,
        starting=starting.job.id,
        running=running.job.id,
        awaiting=awaiting.job.id,
        retried=retried.job.id,
        recovered=recovered.job.id,
        **ended,
    )


async def _ended(driver: Driver) -> dict[str, str]:
    ids: dict[str, str] = {}
    endings: dict[str, c.Ending] = {
        "completed": c.Completed('{"image": "y"}'),
        "partial": c.Completed('["one", "two"]', delivered=2, of=3),
        "failed": c.Failed("the provider said no", final=True, for_user=True),
        "dead": c.Failed("out of memory"),
        "discarded": c.Failed("out of memory again"),
        "cancelled": c.CancelledByHandler("not wanted any more"),
    }
    for name, ending in endings.items():
        held = await lease(driver, units=3, content_hash="same" if name == "completed" else None)
        driver.clock.advance(1.000_001)
        await finish(driver, held, ending)
        ids[name] = held.job.id
    await driver.run(c.Discard(ids["discarded"]))
    reused = new_job(driver.new_id(), content_hash="same")
    await driver.one(c.Submit("bob", (reused,)), Submitted)
    again = await lease(driver)
    await finish(driver, again, c.Failed("once more"))
    requeued = driver.new_id()
    await driver.run(c.Requeue(again.job.id, requeued), c.CancelJob(requeued))
    return {**ids, "reused": reused.id, "requeued": requeued}
