"""What leaves by its age: payloads, results and jobs, by tool and plan; the ledger stays, and nothing is wrong then."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ficha import Ficha, File, InvalidState, JobContext, Keep, NotFound, PruneCount, Retention
from ficha.core.commands import Command, PruneJobs
from ficha.store.base import GetState
from tests.support.shop import World, balance, ledger

DAY = 86_400


async def completed(app: Ficha, tool: str = "upscale", account: str = "ana", **payload: Any) -> str:
    receipt = await app.submit(tool, payload or {"image": "cat"}, account=account)
    [lease] = await app.claim(app.tools[tool].pool, worker="w1")
    await app.finish(lease, result={"of": tool})
    return receipt.job_id


async def opened(world: World, retention: Retention, **settings: Any) -> Ficha:
    """A shop from which nothing leaves unless the test says so."""
    app = await world.open(retention=replace(retention, by_itself=False), **settings)
    await app.open_account("ana", plan="open", credits=1_000, exist_ok=True)
    return app


async def test_a_payload_a_result_and_the_job_leave_at_their_ages_and_the_ledger_stays(world: World) -> None:
    app = await opened(world, Retention(payloads=10, results=20, jobs=30))
    job_id = await completed(app)
    before = await ledger(app)
    world.clock.advance(11 * DAY - 1)
    assert (await app.prune()).jobs == []
    world.clock.advance(2)
    assert (await app.prune()).jobs == [PruneCount("payload", "upscale", "open", 1)]
    job = await app.job(job_id)
    assert (job.payload, job.result, job.removed_at) == (None, {"of": "upscale"}, None)
    assert [item.job.id for item in (await app.library("ana")).items] == [job_id]
    assert await app.verify() == []
    world.clock.advance(10 * DAY)
    assert (await app.prune()).jobs == [PruneCount("result", "upscale", "open", 1)]
    job = await app.job(job_id)
    assert (job.payload, job.result, job.status) == (None, None, "completed")
    assert (await app.library("ana")).items == []
    assert await app.verify() == []
    world.clock.advance(10 * DAY)
    assert (await app.prune(dry_run=True)).jobs == [PruneCount("job", "upscale", "open", 1)]
    assert (await app.job(job_id)).id == job_id, "a dry run removes nothing"
    assert (await app.prune()).jobs == [PruneCount("job", "upscale", "open", 1)]
    with pytest.raises(NotFound):
        await app.job(job_id)
    assert (await app.prune()).jobs == []
    assert await ledger(app) == before
    assert await app.verify() == []
    kept = await app.engine.store.read(GetState(texts=True))
    assert (kept.jobs, kept.payloads, kept.results, kept.steps, kept.events) == ({}, {}, {}, {}, [])


async def test_a_tools_age_goes_before_its_plans_and_a_plans_before_that_of_all(world: World) -> None:
    terms = Retention(jobs=10, by_plan={"pro": Keep(jobs=None)}, by_tool={"embed": Keep(jobs=5)})
    app = await opened(world, terms)
    await app.open_account("bob", plan="pro", credits=100)
    upscaled, embedded = await completed(app), await completed(app, "embed", text="x")
    kept, short = await completed(app, account="bob"), await completed(app, "embed", "bob", text="y")
    world.clock.advance(6 * DAY + 1)
    five = [PruneCount("job", "embed", "open", 1), PruneCount("job", "embed", "pro", 1)]
    assert (await app.prune(dry_run=True)).jobs == five
    assert (await app.prune()).jobs == five
    world.clock.advance(1_000 * DAY)
    assert (await app.prune()).jobs == [PruneCount("job", "upscale", "open", 1)]
    for gone in (upscaled, embedded, short):
        with pytest.raises(NotFound):
            await app.job(gone)
    assert (await app.job(kept)).result == {"of": "upscale"}
    assert await app.verify() == []


async def test_a_job_that_ends_long_after_its_submit_leaves_when_its_end_is_old(world: World) -> None:
    app = await opened(world, Retention(jobs=10), schedule_max_s=300 * DAY)
    late = (await app.submit("upscale", {"image": "x"}, account="ana", delay_s=100 * DAY)).job_id
    world.clock.advance(50 * DAY)
    assert (await app.prune()).jobs == [], "it waits"
    world.clock.advance(51 * DAY)
    await app.sweep()
    [lease] = await app.claim("gpu", worker="w1")
    await app.finish(lease, result=1)
    assert (await app.prune()).jobs == []
    world.clock.advance(10 * DAY - 10)
    assert (await app.prune()).jobs == []
    world.clock.advance(20)
    assert (await app.prune(dry_run=True)).jobs == [PruneCount("job", "upscale", "open", 1)]
    assert (await app.prune()).jobs == [PruneCount("job", "upscale", "open", 1)]
    with pytest.raises(NotFound):
        await app.job(late)
    assert await app.verify() == []
    assert (await app.engine.store.read(GetState())).keyed.keys() & {("KeptJob", late)} == set()


async def test_a_batch_leaves_with_the_last_of_its_jobs(world: World) -> None:
    app = await opened(world, Retention(jobs=10, by_tool={"embed": Keep(jobs=20)}))
    batch = await app.submit_batch([("upscale", {"image": "x"}), ("embed", {"text": "y"})], account="ana")
    for pool in ("gpu", "cpu"):
        [lease] = await app.claim(pool, worker="w1")
        await app.finish(lease, result=1)
    batch_id = batch.batch_id
    assert batch_id is not None
    world.clock.advance(12 * DAY)
    report = await app.prune()
    assert (sum(one.count for one in report.jobs), report.batches) == (1, 0)
    assert (await app.batch(batch_id)).by_status == {"completed": 1}
    world.clock.advance(10 * DAY)
    assert (await app.prune()).batches == 1
    with pytest.raises(NotFound):
        await app.batch(batch_id)
    assert await app.verify() == []


async def test_a_repeat_under_a_key_is_not_charged_again_after_its_job_left(world: World) -> None:
    app = await opened(world, Retention(jobs=5), key_ttl_s=20 * DAY)
    first = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    await app.cancel(first.job_id)
    paid = await balance(app)
    world.clock.advance(7 * DAY)
    await app.prune()
    with pytest.raises(InvalidState, match="has left by its age") as refused:
        await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    assert refused.value.details["job_id"] == first.job_id
    assert await balance(app) == paid
    assert await app.verify() == []
    world.clock.advance(14 * DAY)
    await app.sweep()
    again = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    assert not again.idempotent_hit


async def test_a_dead_letter_keeps_its_payload_until_it_leaves(world: World) -> None:
    app = await opened(world, Retention(payloads=2, results=3, jobs=30))
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    [lease] = await app.claim("gpu", worker="w1")
    await app.fail(lease, "it broke")
    world.clock.advance(10 * DAY)
    assert (await app.prune()).jobs == []
    again = await app.requeue(job_id)
    assert (await app.job(again)).payload == {"image": "x"}
    await app.cancel(again)
    world.clock.advance(DAY)
    await app.prune()
    assert (await app.job(job_id)).payload is None, "it is no dead letter any more"
    world.clock.advance(40 * DAY)
    await app.prune()
    assert (await app.stats()).dead == 0
    assert (await app.dead_letters()).items == []
    assert await app.verify() == []


async def test_what_leaves_is_written_down_before(world: World, tmp_path: Path) -> None:
    app = await opened(world, Retention(jobs=5))
    ids = [await completed(app, image=f"cat {number}") for number in range(3)]
    world.clock.advance(7 * DAY)
    report = await app.prune(export=tmp_path / "gone")
    assert report.exported is not None
    with gzip.open(report.exported) as lines:
        found = [json.loads(line) for line in lines]
    assert sorted(one["job"]["id"] for one in found) == sorted(ids)
    assert {one["leaves"] for one in found} == {"job"}
    assert {one["job"]["payload"]["image"] for one in found} == {"cat 0", "cat 1", "cat 2"}
    assert next(event["kind"] for event in found[0]["events"]) == "submitted"
    assert (await app.prune(export=tmp_path / "gone")).exported is None
    assert len([*(tmp_path / "gone").iterdir()]) == 1


def stored_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def with_pictures(app: Ficha) -> None:
    @app.tool(pool="cpu", cost=1)
    async def frame(job: JobContext, picture: File) -> dict[str, str]:
        return {}


async def test_a_file_leaves_with_the_last_payload_that_names_it(world: World, tmp_path: Path) -> None:
    terms = Retention(payloads=5, by_itself=False)
    app = await world.open(with_pictures, retention=terms, files=f"file:{tmp_path / 'files'}")
    await app.open_account("ana", plan="open", credits=100)
    file = await app.upload("ana", "cat.txt", b"a cat")
    first = await completed(app, "frame", picture=file.id)
    world.clock.advance(3 * DAY)
    second = await completed(app, "frame", picture=file.id)
    world.clock.advance(4 * DAY)
    assert [one.count for one in (await app.prune()).jobs] == [1]
    assert (await app.file(file.id)).name == "cat.txt", "the second job has it still"
    assert ((await app.job(first)).payload, (await app.job(second)).payload) == (None, {"picture": file.id})
    world.clock.advance(3 * DAY)
    report = await app.prune()
    assert report.files == 1
    await app.sweep_files()
    with pytest.raises(NotFound):
        await app.file(file.id)
    assert stored_bytes(tmp_path / "files") == b""
    assert await app.verify() == []


async def test_the_process_that_leads_removes_what_is_due_page_by_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ficha.operations.retention.PAGE", 2)
    app = await opened(world, Retention(jobs=5))
    for _ in range(5):
        await completed(app)
    world.clock.advance(7 * DAY)
    steps = 0
    while await app.prune_step():
        steps += 1
    assert steps == 3
    assert (await app.jobs(account="ana")).items == []
    assert await app.verify() == []


async def test_a_walk_begins_anew_under_other_ages(world: World) -> None:
    app = await opened(world, Retention(jobs=5, by_tool={"upscale": Keep(jobs=None)}))
    job_id = await completed(app)
    await completed(app, "embed", text="x")
    world.clock.advance(7 * DAY)
    assert [one.tool for one in (await app.prune()).jobs] == ["embed"]
    other = await opened(world, Retention(jobs=5))
    assert [one.tool for one in (await other.prune()).jobs] == ["upscale"]
    with pytest.raises(NotFound):
        await other.job(job_id)


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({"jobs": 0}, "jobs must be a number of days"),
        ({"jobs": 40_000}, "jobs must be a number of days"),
        ({"payloads": True}, "payloads must be a number of days"),
        ({"by_plan": {"gold": Keep(jobs=1)}}, "names the plan 'gold', which is not declared"),
        ({"by_tool": {"x": 3}}, "must be Keep"),
        ({"by_tool": {"x": Keep(results=-1)}}, r"by_tool\['x'\].results must be a number of days"),
    ],
)
def test_ages_that_make_no_sense_are_refused_at_once(terms: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Ficha("memory:", retention=Retention(**terms))


async def test_the_process_that_leads_prunes_by_itself_unless_it_must_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ficha.engine.sweeper.PRUNE_PAUSE_S", 0.0)
    app = await world.open(retention=Retention(jobs=5))
    await app.open_account("ana", plan="open", credits=100)
    await completed(app)
    world.clock.advance(7 * DAY)
    await app.engine.sweeper._take_turn()
    assert (await app.jobs(account="ana")).items == []
    for terms in (Retention(jobs=5, by_itself=False), Retention()):
        other = await world.open(retention=terms)
        assert other.engine.sweeper.prune is None


async def test_a_prune_that_is_killed_goes_on_and_all_that_left_was_written_down(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ficha.operations.retention.PAGE", 2)
    app = await opened(world, Retention(jobs=5))
    ids = {await completed(app, image=f"cat {number}") for number in range(5)}
    world.clock.advance(7 * DAY)
    call, calls, dies_at = app.engine.call, 0, 0

    class Killed(Exception):
        pass

    async def dying(command: Command) -> Any:
        nonlocal calls
        calls += 1
        outcome = await call(command)
        if calls == dies_at:
            raise Killed
        return outcome

    monkeypatch.setattr(app.engine, "call", dying)
    deaths = 0
    while True:
        calls, dies_at = 0, dies_at + 1
        try:
            await app.prune(export=tmp_path / "gone")
        except Killed:
            deaths += 1
            assert await app.verify() == []
        else:
            break
    assert deaths > 1
    assert (await app.jobs(account="ana")).items == []
    assert exported(tmp_path / "gone") == ids


def exported(folder: Path) -> set[str]:
    return {json.loads(line)["job"]["id"] for path in folder.iterdir() for line in gzip.open(path)}


async def test_a_batch_that_is_joined_while_its_last_jobs_leave_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await opened(world, Retention(jobs=5))
    receipt = await app.submit_batch([("upscale", {"image": "x"})], account="ana")
    assert receipt.batch_id is not None
    await app.cancel(receipt.job_id)
    world.clock.advance(7 * DAY)
    call, joined = app.engine.call, False

    async def joining(command: Command) -> Any:
        """The batch gets one more job between the look at it and its removal."""
        nonlocal joined
        if isinstance(command, PruneJobs) and not joined:
            joined = True
            await app.submit("upscale", {"image": "y"}, account="ana", batch=receipt.batch_id)
        return await call(command)

    monkeypatch.setattr(app.engine, "call", joining)
    report = await app.prune()
    assert (joined, report.batches, sum(one.count for one in report.jobs)) == (True, 0, 1)
    assert (await app.batch(receipt.batch_id)).by_status == {"queued": 1}
    assert await app.verify() == []
