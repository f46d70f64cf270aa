"""The library: an account's completed work is found by tool, date and words, and its owner can remove it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha, File, InvalidArgument, InvalidState, JobContext, NotFound, Page, WorkRemoved
from ficha.core.dataset import State
from ficha.engine.views import LibraryItem
from ficha.store.base import GetState
from ficha.validation import Limits
from tests.support.shop import World


async def completed(app: Ficha, tool: str, account: str = "ana", **payload: Any) -> str:
    receipt = await app.submit(tool, payload, account=account)
    [lease] = await app.claim(app.tools[tool].pool, worker="w1")
    await app.finish(lease, result={"of": tool})
    return receipt.job_id


def ids(page: Page[LibraryItem]) -> list[str]:
    return [item.job.id for item in page.items]


@pytest.mark.req("D12")
async def test_completed_work_is_kept_and_found_again(world: World, app: Ficha) -> None:
    upscaled = await completed(app, "upscale", image="Harbour")
    await app.open_account("bob", plan="open", credits=100)
    await completed(app, "upscale", "bob", image="harbour")
    world.clock.advance(7_200)
    embedded = await completed(app, "embed", text='a "harbour" of words')
    cancelled = (await app.submit("upscale", {"image": "harbour"}, account="ana")).job_id
    await app.cancel(cancelled)
    waiting = (await app.submit("upscale", {"image": "harbour"}, account="ana")).job_id
    page = await app.library("ana")
    assert ids(page) == [embedded, upscaled]
    assert page.next is None
    job = page.items[0].job
    assert (job.tool, job.status, job.charged) == ("embed", "completed", 2)
    with pytest.raises(AttributeError):
        _ = job.payload
    whole = await app.library("ana", include=["payload", "result"], tool="upscale")
    assert [(item.job.payload, item.job.result) for item in whole.items] == [({"image": "Harbour"}, {"of": "upscale"})]
    made = (await app.job(embedded)).created_at
    assert ids(await app.library("ana", since=made)) == [embedded]
    assert ids(await app.library("ana", until=made)) == [upscaled]
    assert ids(await app.library("ana", since=made + timedelta(days=1))) == []
    assert ids(await app.library("ana", until=made - timedelta(days=1))) == []
    assert ids(await app.library("ana", search="HARBOUR")) == [embedded, upscaled]
    assert ids(await app.library("ana", search='"harbour" of')) == [embedded]
    assert ids(await app.library("ana", search="harbour of")) == []
    assert ids(await app.library("nobody")) == []
    assert waiting not in ids(page)


@pytest.mark.req("D12")
async def test_each_page_looks_at_so_many_jobs_and_says_where_to_go_on(world: World) -> None:
    app = await world.open(limits=Limits(library_searched=3))
    await app.open_account("ana", plan="open", credits=1_000)
    found = [await completed(app, "anything", word="needle" if number == 1 else "hay") for number in range(8)]
    pages, after = [], None
    while True:
        page = await app.library("ana", search="needle", after=after)
        pages.append(ids(page))
        if (after := page.next) is None:
            break
    assert pages == [[], [], [found[1]]]
    assert ids(await app.library("ana", limit=2)) == found[:-3:-1]
    rest = await app.library("ana", limit=2, after=found[6])
    assert ids(rest) == [found[5], found[4]]


@pytest.mark.req("D12")
async def test_removed_work_is_gone_for_good_and_the_ledger_stays(world: World, app: Ficha) -> None:
    receipt = await app.submit("embed", {"text": "a secret"}, account="ana")
    [lease] = await app.claim("cpu", worker="w1")
    await app.save_step(lease, "read", "a secret")
    await app.note(lease, "a secret")
    await app.finish(lease, result="a secret")
    assert await app.remove_work(receipt.job_id, account="ana") == WorkRemoved(receipt.job_id, True)
    assert await app.remove_work(receipt.job_id) == WorkRemoved(receipt.job_id, False)
    job = await app.job(receipt.job_id)
    assert (job.payload, job.result, job.status, job.charged) == (None, None, "completed", 2)
    assert job.removed_at is not None
    assert await app.steps(receipt.job_id) == {}
    assert "secret" not in str(await app.events(job=receipt.job_id))
    assert ids(await app.library("ana")) == []
    assert [entry.amount for entry in (await app.ledger("ana")).items] == [-2, 1_000]
    assert await app.verify() == []
    # The result of an equal job is not served from what was removed.
    again = await app.submit("embed", {"text": "a secret"}, account="ana")
    assert (again.status, again.cost) == ("queued", 2)


@pytest.mark.req("D10", "D12")
async def test_only_completed_work_of_ones_own_is_removed(world: World, app: Ficha) -> None:
    done = await completed(app, "upscale", image="x")
    waiting = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    with pytest.raises(NotFound):
        await app.remove_work(done, account="bob")
    with pytest.raises(InvalidState, match="Only completed work"):
        await app.remove_work(waiting, account="ana")
    with pytest.raises(NotFound):
        await app.remove_work("no id")
    state: State = await app.engine.store.read(GetState(texts=True))
    assert state.payloads[done] != "null"


def stored(folder: Path) -> int:
    return len([path for path in folder.rglob("*") if path.is_file()])


@pytest.mark.req("D12")
async def test_work_comes_with_its_files_which_are_removed_with_it(world: World, tmp_path: Path) -> None:
    def with_files(app: Ficha) -> None:
        @app.tool(pool="cpu")
        async def frame(job: JobContext, image: File) -> None: ...

    app = await world.open(with_files, files=f"file:{tmp_path}/files")
    await app.open_account("ana", plan="open")
    own, shared = [(await app.upload("ana", f"{name}.txt", name.encode())).id for name in ("own", "shared")]
    works = []
    for given in (own, shared, shared):
        works.append((await app.submit("frame", {"image": given}, account="ana")).job_id)
        [lease] = await app.claim("cpu", worker="w1")
        await app.save_file(lease, "made.txt", b"made")
        await app.finish(lease)
    items = {item.job.id: item.files for item in (await app.library("ana")).items}
    assert [sorted(file.role for file in items[job_id]) for job_id in works] == [
        ["input", "result"],
        ["input", "result"],
        ["result"],
    ]
    assert stored(tmp_path / "files") == 5
    removed = [(await app.remove_work(job_id)).files for job_id in works[:2]]
    assert sorted(removed[0]) == sorted(file.id for file in items[works[0]])
    assert removed[1] == tuple(file.id for file in items[works[1]] if file.role == "result")
    left = {file.id for file in (await app.files("ana")).items}
    assert left == {shared, *(file.id for file in items[works[2]])}
    assert stored(tmp_path / "files") == 2
    assert await app.verify() == []


async def test_what_cannot_be_searched_for_is_refused(world: World, app: Ficha) -> None:
    for search in ("", "x" * 201, 7, "a\0b", "\ud800"):
        with pytest.raises(InvalidArgument):
            await app.library("ana", search=search)  # type: ignore[arg-type]
    assert ids(await app.library("ana", search="x" * 200)) == []
    with pytest.raises(InvalidArgument):
        await app.library("ana", since="yesterday")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        await app.library("ana", limit=0)
    assert ids(await app.library("ana", since=datetime(1, 1, 1, tzinfo=UTC), until=datetime(1, 1, 2, tzinfo=UTC))) == []
