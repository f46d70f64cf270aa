"""Files in-process, on every database: uploads at the edge of what a plan allows, jobs that take and make files, and
what is left when something breaks in between."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import ficha
from ficha import (
    Ficha,
    InvalidFile,
    InvalidPayload,
    InvalidState,
    JobContext,
    LeaseLost,
    NotFound,
    Overloaded,
    Plan,
    QuotaExceeded,
    Refused,
    ThreadJobContext,
    TooLarge,
)
from ficha.core import commands as c
from ficha.core.outcomes import FileChanged
from ficha.core.records import File
from ficha.files.storage import FileStorage, StorageAway, StorageFull, StoredBytes
from ficha.ids import new_id
from ficha.operations.files import storage_key
from ficha.outbound import OutboundError
from ficha.providers.base import RemoteFile
from tests.files.test_picture_metadata import picture as taken_by_a_phone
from tests.support.shop import World, balance, state

pytestmark = pytest.mark.long_on("postgresql")


def picture() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(made, "PNG")
    return made.getvalue()


PNG = picture()
MISSING = "00000000-0000-7000-8000-ffffffffffff"


def with_tools(app: Ficha) -> None:
    @app.tool(pool="cpu", cost=5, attempts=2, backoff=1)
    async def double(job: JobContext, image: ficha.File) -> dict[str, Any]:
        data = await image.read()
        return {"name": image.name, "size": image.size, "out": await job.save("out.txt", data * 2)}

    @app.tool(pool="cpu", cost=5)
    def in_thread(job: ThreadJobContext, image: ficha.ThreadFile) -> ficha.ThreadFile:
        assert job.file("image").read() == b"".join(image.chunks())
        return job.save("threaded.txt", [b"<", image.read(), b">"])

    @app.tool(pool="cpu", cost=1, items="images", max_items=2)
    async def each(job: JobContext, images: list[ficha.File]) -> list[int]:
        assert [file.id for file in job.files("images")] == [file.id for file in images]
        return [image.size for image in images]

    @app.tool(pool="cpu", cost=5)
    async def fails(job: JobContext, image: ficha.File) -> None:
        await job.save("half.txt", b"half")
        raise ficha.FinalError("no")


class Shop:
    """The shop with a folder for its files."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder

    async def open(self, *plans: Plan, **settings: Any) -> Ficha:
        app = await self.world.open(
            with_tools,
            files=f"file://{self.folder}",
            secret="0123456789abcdef0123456789abcdef",  # noqa: S106 (of this test only)
            public_url="https://example.com",
            plans=plans or (Plan("open"),),
            **settings,
        )
        await app.open_account("ana", plan=app.default_plan, credits=100)
        return app

    def stored(self) -> list[str]:
        """The keys of all bytes that lie in the folder."""
        found = [path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return sorted(str(path.relative_to(self.folder)) for path in found)


@pytest.fixture
def made(world: World, tmp_path: Path) -> Shop:
    return Shop(world, tmp_path / "files")


async def usage(app: Ficha, account: str = "ana") -> tuple[int, int]:
    used = await app.queries.file_usage(account)
    return used.files, used.size


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_an_upload_is_kept_with_its_true_size_type_and_digest(made: Shop) -> None:
    app = await made.open()
    given = await app.upload("ana", r"C:\pictures\ cat.png", in_pieces(PNG[:7], PNG[7:]))
    assert (given.name, given.size, given.state, given.role) == ("cat.png", len(PNG), "stored", "input")
    assert (given.media_type, given.digest) == ("image/png", hashlib.sha256(PNG).hexdigest())
    assert await app.file(given.id) == given
    assert b"".join([chunk async for chunk in app.read_file(given.id)]) == PNG
    assert (await app.files("ana")).items == [given]
    assert (await app.files("bob")).items == []
    assert len(made.stored()) == 1
    assert await app.verify() == []


@pytest.mark.parametrize("name", ["", ".", "/", "\u202e", "\x00", 7])
async def test_a_file_without_a_name_is_refused(made: Shop, name: Any) -> None:
    app = await made.open()
    with pytest.raises(InvalidFile, match="a file needs a name"):
        await app.upload("ana", name, b"x")
    assert made.stored() == []


async def test_an_upload_at_the_limit_passes_and_one_byte_more_is_refused(made: Shop) -> None:
    app = await made.open(Plan("small", file_bytes=10))
    await app.upload("ana", "a", bytes(10))
    with pytest.raises(TooLarge, match="plan small allows 10"):
        await app.upload("ana", "b", bytes(11))
    with pytest.raises(TooLarge, match="larger than the 10 bytes"):
        await app.upload("ana", "c", in_pieces(bytes(6), bytes(5)))
    await app.upload("ana", "d", in_pieces(bytes(6), bytes(4)))
    assert await usage(app) == (2, 20)
    assert len(made.stored()) == 2


@pytest.mark.req("C6")
async def test_uploads_side_by_side_never_exceed_a_quota_together(made: Shop) -> None:
    app = await made.open(Plan("small", max_files=3, storage_bytes=50))

    async def slow(event: asyncio.Event) -> AsyncIterator[bytes]:
        yield bytes(5)
        await event.wait()
        yield bytes(5)

    events = [asyncio.Event() for _ in range(6)]
    uploads = [asyncio.create_task(app.upload("ana", "a", slow(event), size=20)) for event in events]
    while len(refused := [task for task in uploads if task.done()]) < 4:
        await asyncio.wait([task for task in uploads if task not in refused], return_when=asyncio.FIRST_COMPLETED)
    assert all(isinstance(task.exception(), QuotaExceeded) for task in refused)
    assert await usage(app) == (2, 40)
    for event in events:
        event.set()
    await asyncio.wait(uploads)
    kept = [task.result() for task in uploads if task not in refused]
    assert [file.size for file in kept] == [10, 10]
    # What was not used is free again: the third file has room, the fourth has not.
    await app.upload("ana", "c", bytes(30))
    with pytest.raises(QuotaExceeded, match="allows 3 files"):
        await app.upload("ana", "d", b"")
    await app.remove_file(kept[0].id)
    with pytest.raises(QuotaExceeded, match="50 bytes of files together"):
        await app.upload("ana", "d", bytes(11))
    await app.upload("ana", "d", bytes(10))
    assert await usage(app) == (3, 50)
    assert await app.verify() == []


async def test_a_sender_who_breaks_off_leaves_nothing(made: Shop) -> None:
    app = await made.open(Plan("small", max_files=1))

    async def broken() -> AsyncIterator[bytes]:
        yield PNG
        raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError):
        await app.upload("ana", "a", broken())
    assert (await usage(app), made.stored(), (await state(app)).of(File)) == ((0, 0), [], {})
    await app.upload("ana", "a", PNG)


async def test_a_cancelled_upload_leaves_nothing(made: Shop) -> None:
    app = await made.open()
    waits = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield PNG
        waits.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(app.upload("ana", "a", endless()))
    await waits.wait()
    assert await usage(app) == (1, app.limits.file_bytes)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await usage(app), made.stored(), (await state(app)).of(File)) == ((0, 0), [], {})


async def test_an_upload_that_takes_too_long_is_given_up(made: Shop) -> None:
    app = await made.open(upload_s=0.01)

    async def endless() -> AsyncIterator[bytes]:
        yield PNG
        await asyncio.Event().wait()

    with pytest.raises(InvalidState, match=r"took longer than 0\.01 s"):
        await app.upload("ana", "a", endless())
    assert (await usage(app), made.stored()) == ((0, 0), [])


class Broken(FileStorage):
    """A storage that fails where a test says so, on top of a real one."""

    def __init__(self, real: FileStorage) -> None:
        self.real = real
        self.fails: dict[str, Exception] = {}

    def _check(self, what: str) -> None:
        if (error := self.fails.get(what)) is not None:
            raise error

    async def put(self, key: str, chunks: Any, most_bytes: int) -> StoredBytes:
        self._check("put")
        stored = await self.real.put(key, chunks, most_bytes)
        self._check("after put")
        return stored

    async def get(self, key: str, start: int = 0, end: int | None = None) -> Any:
        self._check("get")
        async for chunk in self.real.get(key, start, end):
            yield chunk

    async def delete(self, key: str) -> None:
        self._check("delete")
        await self.real.delete(key)

    async def size(self, key: str) -> int | None:
        return await self.real.size(key)


def breakable(app: Ficha) -> Broken:
    broken = Broken(app.file_access.storage)
    app.file_access._storage = broken
    return broken


@pytest.mark.parametrize("error", [StorageFull(), StorageAway()], ids=["full", "away"])
async def test_a_storage_that_is_full_or_away_refuses_and_leaves_nothing(made: Shop, error: Exception) -> None:
    app = await made.open(Plan("small", max_files=1))
    storage = breakable(app)
    storage.fails = {"put": error}
    with pytest.raises(Overloaded) as refused:
        await app.upload("ana", "a", PNG)
    assert refused.value.retryable
    assert (await usage(app), made.stored(), (await state(app)).of(File)) == ((0, 0), [], {})
    storage.fails = {}
    await app.upload("ana", "a", PNG)


async def test_bytes_that_cannot_be_deleted_are_deleted_later(made: Shop) -> None:
    app = await made.open()
    storage = breakable(app)
    storage.fails = {"after put": StorageAway(), "delete": StorageAway()}
    with pytest.raises(Overloaded):
        await app.upload("ana", "a", PNG)
    del storage.fails["after put"]
    kept = await app.upload("ana", "b", PNG)
    removed = await app.remove_file(kept.id)
    assert (removed.state, await usage(app), len(made.stored())) == ("removed", (0, 0), 2)
    with pytest.raises(NotFound):
        await app.file(kept.id)
    assert (await app.sweep()).files == 0
    storage.fails = {}
    assert (await app.sweep()).files == 2
    assert (made.stored(), (await state(app)).of(File)) == ([], {})
    assert await app.verify() == []


async def test_an_upload_whose_time_was_over_before_it_began_sends_no_bytes(
    made: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await made.open(upload_s=0.01)
    breakable(app).fails = {"put": AssertionError("bytes were sent")}
    call = app.engine.call

    async def late(command: c.Command) -> Any:
        outcome = await call(command)
        if isinstance(command, c.BeginFile):
            # As if the process had been frozen, until the sweeper has removed the file.
            await asyncio.sleep(0.02)
            made.world.clock.advance(60)
            await app.sweep()
        return outcome

    monkeypatch.setattr(app.engine, "call", late)
    with pytest.raises(InvalidState, match="took longer"):
        await app.upload("ana", "a", PNG)
    assert (await usage(app), made.stored()) == ((0, 0), [])
    made.world.clock.advance(86_400)
    await app.sweep()
    assert (await state(app)).of(File) == {}


async def test_a_process_that_dies_between_begin_and_store_leaves_nothing_for_long(made: Shop) -> None:
    app = await made.open(Plan("small", max_files=1), dead_uploads_kept_s=3_600)
    outcome = await app.engine.call(c.BeginFile(new_id(), "ana", "a", 5, 5))
    assert isinstance(outcome, FileChanged)
    await app.file_access.storage.put(storage_key(outcome.file), in_pieces(bytes(5)), 5)
    with pytest.raises(QuotaExceeded):
        await app.upload("ana", "b", PNG)
    with pytest.raises(InvalidState, match="being uploaded"):
        await app.remove_file(outcome.file.id)
    assert (await app.sweep()).files == 0
    made.world.clock.advance(3_600)
    assert (await app.sweep()).files == 1
    assert await usage(app) == (0, 0)
    await app.upload("ana", "b", PNG)
    assert len(made.stored()) == 1, "its bytes are deleted at once"
    # A sender that was suspended may send them as late as this.
    await app.file_access.storage.put(storage_key(outcome.file), in_pieces(bytes(5)), 5)
    made.world.clock.advance(3_599)
    assert ((await app.sweep()).files, len(made.stored())) == (0, 2)
    made.world.clock.advance(1)
    assert (await app.sweep()).files == 1
    assert (len(made.stored()), outcome.file.id in (await state(app)).of(File)) == (1, False)


async def test_an_unsafe_file_is_refused_and_leaves_nothing(made: Shop) -> None:
    app = await made.open()
    cut = picture()[:-30]
    with pytest.raises(InvalidFile, match="it was not kept"):
        await app.upload("ana", "a", cut)
    assert (await usage(app), made.stored()) == ((0, 0), [])


@pytest.mark.req("C6")
async def test_a_job_waits_for_its_upload_under_a_reservation(made: Shop) -> None:
    app = await made.open(Plan("single", max_active=1))
    hold = await app.reserve("ana")
    waits, ends = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield PNG
        waits.set()
        await ends.wait()

    upload = asyncio.create_task(app.upload("ana", "cat.png", slow(), reservation=hold.id))
    await waits.wait()
    [shown] = (await app.reservations(account="ana")).items
    [file] = shown.uploads
    assert (file.name, file.state, file.reservation) == ("cat.png", "uploading", hold.id)
    with pytest.raises(InvalidState, match="still being uploaded"):
        await app.submit("double", {"image": file.id}, account="ana", reservation=hold.id)
    ends.set()
    stored = await upload
    assert [one.state for one in (await app.reservations(account="ana")).items[0].uploads] == ["stored"]
    receipt = await app.submit("double", {"image": stored.id}, account="ana", reservation=hold.id)
    assert receipt.status == "queued"
    with pytest.raises(InvalidState, match="consumed"):
        await app.upload("ana", "b", b"x", reservation=hold.id)


async def test_a_handler_reads_its_file_and_saves_another(made: Shop) -> None:
    app = await made.open()
    given = await app.upload("ana", "cat.txt", b"meow")
    first = await app.submit("double", {"image": given.id}, account="ana")
    second = await app.submit("in_thread", {"image": given.id.upper()}, account="ana")
    await app.run_worker(burst=True)
    result = (await app.job(first.job_id)).result
    assert (result["name"], result["size"]) == ("cat.txt", 4)
    assert result["out"] == {
        "file": result["out"]["file"],
        "name": "out.txt",
        "media_type": result["out"]["media_type"],
        "size": 8,
    }
    inputs, outputs = await app.job_files(first.job_id)
    assert (inputs.id, inputs.uses, inputs.expires_at) == (given.id, 2, None)
    assert (outputs.id, outputs.role, outputs.job) == (result["out"]["file"], "result", first.job_id)
    assert b"".join([chunk async for chunk in app.read_file(outputs.id)]) == b"meowmeow"
    threaded = (await app.job(second.job_id)).result
    assert b"".join([chunk async for chunk in app.read_file(threaded["file"])]) == b"<meow>"
    assert [file.id for file in await app.job_files(second.job_id)] == [given.id, threaded["file"]]
    # A result can be the next job's input, as it stands in the result.
    third = await app.submit("in_thread", {"image": result["out"]}, account="ana")
    await app.run_worker(burst=True)
    assert (await app.job(third.job_id)).status == "completed"
    assert await app.verify() == []


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (MISSING, "has no such file"),
        ("cat.png", "should be the id of a file"),
        (7, "should be the id of a file"),
        (None, "should be the id of a file"),
        ({"file": 7}, "should be the id of a file"),
    ],
)
async def test_a_payload_without_its_file_is_refused_and_nothing_is_charged(made: Shop, image: Any, words: str) -> None:
    app = await made.open()
    with pytest.raises(InvalidPayload, match=words):
        await app.submit("double", {"image": image}, account="ana")
    quote = await app.quote("double", {"image": MISSING}, account="ana")
    assert (quote.admitted, quote.refusal.code if quote.refusal else None) == (False, "INVALID_PAYLOAD")
    assert await balance(app) == 100


async def test_another_accounts_file_is_as_if_it_did_not_exist(made: Shop) -> None:
    app = await made.open()
    await app.open_account("bob", plan="open", credits=10)
    given = await app.upload("bob", "a", b"secret")
    with pytest.raises(InvalidPayload) as foreign:
        await app.submit("double", {"image": given.id}, account="ana")
    with pytest.raises(InvalidPayload) as missing:
        await app.submit("double", {"image": MISSING}, account="ana")
    assert foreign.value.message.replace(given.id, MISSING) == missing.value.message
    for call in (app.file, app.remove_file, app.file_link, app.complete_upload):
        with pytest.raises(NotFound) as foreign_too:
            await call(given.id, account="ana")
        with pytest.raises(NotFound) as missing_too:
            await call(MISSING, account="ana")
        assert foreign_too.value.message.replace(given.id, MISSING) == missing_too.value.message
    assert (await app.file(given.id, account="bob")).uses == 0
    # A handler cannot read it either, whatever its payload says.
    receipt = await app.submit("anything", {"image": given.id}, account="ana")
    (lease,) = await app.claim("cpu", worker="w1")
    assert lease.job_id == receipt.job_id
    assert await app.files_of(lease, [given.id]) == []
    with pytest.raises(NotFound):
        await app.open_file(lease, given.id)


async def test_a_batch_and_a_split_submit_take_each_their_own_files(made: Shop) -> None:
    app = await made.open()
    files = [(await app.upload("ana", str(n), bytes(n))).id for n in range(5)]
    receipt = await app.submit("each", {"images": files}, account="ana")
    assert receipt.jobs == 3
    with pytest.raises(InvalidPayload):
        await app.submit("each", {"images": [*files, MISSING]}, account="ana")
    await app.submit_batch(
        [("double", {"image": files[0]}), ("double", {"image": files[1]})], account="ana", idempotency_key="k1"
    )
    await app.submit_batch(
        [("double", {"image": files[0]}), ("double", {"image": files[1]})], account="ana", idempotency_key="k1"
    )
    found = (await state(app)).of(File)
    assert [found[file_id].uses for file_id in files] == [2, 2, 1, 1, 1]
    await app.run_worker(burst=True)
    jobs = (await app.jobs(batch=receipt.batch_id, include=["result"])).items
    assert sorted(size for job in jobs for size in job.result) == [0, 1, 2, 3, 4]


async def test_a_file_that_is_removed_before_the_job_runs_fails_it_for_good_and_pays_back(made: Shop) -> None:
    app = await made.open()
    given = await app.upload("ana", "a", b"x")
    receipt = await app.submit("double", {"image": given.id}, account="ana")
    await app.remove_file(given.id)
    await app.run_worker(burst=True)
    job = await app.job(receipt.job_id)
    assert (job.status, job.attempts) == ("failed", 1)
    assert job.user_error is not None
    assert "was removed before the job could read it" in job.user_error
    assert await balance(app) == 100


async def test_results_of_failed_jobs_and_unused_inputs_are_swept(made: Shop) -> None:
    app = await made.open()
    unused, given = await app.upload("ana", "unused", b"x"), await app.upload("ana", "used", b"x")
    failed = await app.submit("fails", {"image": given.id}, account="ana")
    done = await app.submit("double", {"image": given.id}, account="ana")
    await app.run_worker(burst=True)
    assert (await app.job(failed.job_id)).status == "failed"
    assert await usage(app) == (4, 1 + 1 + 4 + 2)
    made.world.clock.advance(86_400)
    await app.sweep()
    left = {file.name for file in (await app.files("ana")).items}
    assert left == {"used", "out.txt"}
    assert await usage(app) == (2, 3)
    assert len(made.stored()) == 2
    with pytest.raises(NotFound):
        await app.file(unused.id)
    made.world.clock.advance(10 * 86_400)
    assert (await app.sweep()).files == 0
    assert {file.id for file in await app.job_files(done.job_id)} == {
        file.id for file in (await app.files("ana")).items
    }
    assert await app.verify() == []


async def test_a_run_that_lost_its_lease_saves_nothing(made: Shop) -> None:
    app = await made.open()
    await app.submit("anything", {}, account="ana")
    (lease,) = await app.claim("cpu", worker="w1")
    await app.hand_back(lease, "stops")
    with pytest.raises(LeaseLost):
        await app.save_file(lease, "a", b"x")
    (again,) = await app.claim("cpu", worker="w2")

    async def loses_it() -> AsyncIterator[bytes]:
        yield b"x"
        await app.hand_back(again, "stops")

    with pytest.raises(LeaseLost):
        await app.save_file(again, "a", loses_it())
    assert (await usage(app), made.stored(), (await state(app)).of(File)) == ((0, 0), [], {})


async def test_a_provider_s_result_is_stored_once_however_often_it_is_copied(made: Shop) -> None:
    app = await made.open(Plan("none", max_files=0))
    receipt = await app.submit("stubborn", {}, account="ana")
    (lease,) = await app.claim("cpu", worker="w1")
    await app.accept(lease, "ref-1")

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await app.keep_result(receipt.job_id, 0, 1, "out.png", broken())
    assert (await usage(app), made.stored()) == ((0, 0), [])
    first = await app.keep_result(receipt.job_id, 0, 1, "out.png", in_pieces(PNG))
    again = await app.keep_result(receipt.job_id, 0, 1, "out.png", broken())
    assert first == again
    other = await app.keep_result(receipt.job_id, 0, 2, "out.png", in_pieces(PNG))
    assert other.id != first.id
    with pytest.raises(LeaseLost):
        await app.keep_result(receipt.job_id, 1, 1, "out.png", in_pieces(PNG))
    assert (await usage(app), len(made.stored())) == ((2, 2 * len(PNG)), 2)
    await app.finish_job(receipt.job_id, app.completed([first, other]))
    assert [one["file"] for one in (await app.job(receipt.job_id)).result] == [first.id, other.id]
    with pytest.raises(LeaseLost):
        await app.keep_result(receipt.job_id, 0, 3, "out.png", in_pieces(PNG))
    assert await app.verify() == []


async def test_copies_of_one_result_side_by_side_end_in_one_file(made: Shop) -> None:
    app = await made.open()
    receipt = await app.submit("stubborn", {}, account="ana")
    (lease,) = await app.claim("cpu", worker="w1")
    await app.accept(lease, "ref-1")
    copies = [app.keep_result(receipt.job_id, 0, 1, "out.png", in_pieces(PNG)) for _ in range(5)]
    found = await asyncio.gather(*copies)
    assert len({file.id for file in found}) == 1
    assert (await usage(app), len(made.stored())) == ((1, len(PNG)), 1)
    assert await app.verify() == []


async def test_a_copy_that_breaks_off_leaves_what_another_one_stored(made: Shop) -> None:
    app = await made.open()
    receipt = await app.submit("stubborn", {}, account="ana")
    (lease,) = await app.claim("cpu", worker="w1")
    await app.accept(lease, "ref-1")
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield PNG[:10]
        begun.set()
        await goes_on.wait()
        raise ConnectionResetError

    late = asyncio.create_task(app.keep_result(receipt.job_id, 0, 1, "out.png", slow()))
    await begun.wait()
    kept = await app.keep_result(receipt.job_id, 0, 1, "out.png", in_pieces(PNG))
    await app.finish_job(receipt.job_id, app.completed(kept))
    goes_on.set()
    with pytest.raises(ConnectionResetError):
        await late
    assert b"".join([chunk async for chunk in app.read_file(kept.id)]) == PNG
    assert (await usage(app), len(made.stored())) == ((1, len(PNG)), 1)


async def test_a_copy_waits_while_the_bytes_of_an_earlier_one_cannot_be_deleted(made: Shop) -> None:
    app = await made.open()
    receipt = await app.submit("stubborn", {}, account="ana")
    (lease,) = await app.claim("cpu", worker="w1")
    await app.accept(lease, "ref-1")
    storage = breakable(app)
    storage.fails = {"after put": StorageAway(), "delete": StorageAway()}
    for _ in range(2):
        with pytest.raises(Overloaded):
            await app.keep_result(receipt.job_id, 0, 1, "out.png", in_pieces(PNG))
    storage.fails = {}
    assert (await app.sweep()).files == 1
    await app.keep_result(receipt.job_id, 0, 1, "out.png", in_pieces(PNG))
    assert (await usage(app), len(made.stored())) == ((1, len(PNG)), 1)


async def test_a_provider_s_file_is_fetched_from_where_it_lies(made: Shop) -> None:
    app = await made.open(allow_addresses=["127.0.0.0/8"])
    receipt = await app.submit("stubborn", {}, account="ana")
    (lease,) = await app.claim("cpu", worker="w1")
    await app.accept(lease, "ref-1")
    answers = [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"]
    answers += [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + PNG]
    answers += [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(PNG) + PNG]

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        remote = RemoteFile(f"http://127.0.0.1:{port}/made/out%20put.png?token=secret")
        with pytest.raises(OutboundError, match="answered 404") as missing:
            await app.save_result(receipt.job_id, 0, 0, remote)
        assert "secret" not in str(missing.value)
        with pytest.raises(OutboundError):
            await app.save_result(receipt.job_id, 0, 0, remote)
        assert (await usage(app), made.stored()) == ((0, 0), [])
        saved = await app.save_result(receipt.job_id, 0, 0, remote)
        assert (saved.name, saved.media_type, saved.size) == ("out put.png", "image/png", len(PNG))
        # It is there already: nobody is asked again.
        assert answers == []
        assert await app.save_result(receipt.job_id, 0, 0, remote) == saved
    with pytest.raises(OutboundError):
        await app.save_result(receipt.job_id, 0, 1, RemoteFile("http://10.0.0.1/"))


async def test_a_link_is_for_one_file_and_a_while(made: Shop) -> None:
    app = await made.open()
    given = await app.upload("ana", "a", b"x")
    link = await app.file_link(given.id, ttl_s=60)
    assert link.url.startswith(f"https://example.com/api/files/{given.id}?")
    assert link.url not in repr(link)
    for wrong in (0, 7 * 86_400 + 1, True, "60"):
        with pytest.raises(Refused, match="ttl_s must be"):
            await app.file_link(given.id, ttl_s=wrong)  # type: ignore[arg-type]


async def test_local_disk_takes_no_direct_upload_and_leaves_nothing_of_one(made: Shop) -> None:
    app = await made.open()
    with pytest.raises(Refused, match="no direct uploads"):
        await app.begin_upload("ana", "a", 10)
    assert (await usage(app), (await state(app)).of(File)) == ((0, 0), {})


async def test_a_file_can_be_given_as_a_path_an_open_file_or_bytes(made: Shop, tmp_path: Path) -> None:
    app = await made.open()
    path = tmp_path / "cat.bin"
    path.write_bytes(bytes(2_500_000))
    with path.open("rb") as opened, path.open() as as_text:
        for data in (path, opened, bytearray(path.read_bytes()), memoryview(path.read_bytes()), [bytes(2_500_000)]):
            assert (await app.upload("ana", "a", data)).size == 2_500_000
        for wrong in ("text", as_text):
            with pytest.raises((TypeError, UnicodeDecodeError)):
                await app.upload("ana", "a", wrong)  # type: ignore[arg-type]
    assert await usage(app) == (5, 12_500_000)


async def test_results_lose_place_and_device_and_uploads_keep_them(made: Shop) -> None:
    original = taken_by_a_phone("JPEG")
    app = await made.open()
    uploaded = await app.upload("ana", "cat.jpg", original)
    assert await whole(app, uploaded.id) == original
    await app.submit("anything", {}, account="ana")
    (lease,) = await app.claim("cpu", worker="w1")
    saved = await app.save_file(lease, "cat.jpg", original)
    await app.accept(lease, "ref-1")

    async def provided() -> AsyncIterator[bytes]:
        yield original

    copied = await app.keep_result(lease.job_id, 0, 0, "cat.jpg", provided())
    for file_id in (saved["id"], copied.id):
        bytes_of_it = await whole(app, file_id)
        assert (await app.file(file_id)).size == len(bytes_of_it) < len(original)
        assert b"Secretphone" not in bytes_of_it
        shown = Image.open(io.BytesIO(bytes_of_it))
        assert (shown.tobytes(), dict(shown.getexif())) == (Image.open(io.BytesIO(original)).tobytes(), {0x0112: 6})
    assert await whole(app, uploaded.id) == original


async def whole(app: Ficha, file_id: str) -> bytes:
    return b"".join([chunk async for chunk in app.read_file(file_id)])
