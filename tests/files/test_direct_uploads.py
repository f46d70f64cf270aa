"""Uploads that go straight to an S3-compatible store: begun, sent by whoever has the URL, and made a file of."""

import asyncio
import io
from collections.abc import AsyncIterator

import httpx
import pytest
from PIL import Image

from ficha import (
    Ficha,
    File,
    InvalidFile,
    InvalidState,
    JobContext,
    NotFound,
    Plan,
    QuotaExceeded,
    TooLarge,
    UploadView,
)
from ficha.store.memory import MemoryStore
from ficha.testing import ManualClock
from tests.support.s3_server import S3Server


def picture() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(made, "PNG")
    return made.getvalue()


PNG = picture()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(s3: S3Server, s3_keys: None, bucket: str, clock: ManualClock) -> AsyncIterator[Ficha]:
    plan = Plan("free", file_bytes=1_000, max_files=2, storage_bytes=1_500)
    made = Ficha(store=MemoryStore(clock=clock), files=s3.bucket(bucket), plans=[plan], sweep_by_itself=False)

    @made.tool
    async def size(job: JobContext, image: File) -> int:
        return len(await image.read())

    async with made:
        await made.open_account("ana")
        yield made
        assert await made.verify() == []


async def send(upload: UploadView, content: bytes) -> httpx.Response:
    assert upload.url is not None
    async with httpx.AsyncClient() as http:
        return await http.put(upload.url, content=content, headers=upload.headers)


async def test_what_was_sent_straight_to_the_store_becomes_a_file_once(app: Ficha) -> None:
    upload = await app.begin_upload("ana", "cat.png", len(PNG), media_type="image/png")
    assert (upload.file.state, upload.file.size) == ("uploading", len(PNG))
    with pytest.raises(InvalidState, match="PUT the file"):
        await app.complete_upload(upload.file.id)
    (await send(upload, PNG)).raise_for_status()
    with pytest.raises(NotFound):
        await app.complete_upload(upload.file.id, account="bob")
    several = await asyncio.gather(*(app.complete_upload(upload.file.id, account="ana") for _ in range(3)))
    assert {(file.state, file.media_type, file.size) for file in several} == {("stored", "image/png", len(PNG))}
    assert await app.complete_upload(upload.file.id) == several[0]
    # Sending again changes nothing any more.
    await send(upload, bytes(len(PNG)))
    assert b"".join([chunk async for chunk in app.read_file(upload.file.id)]) == PNG
    receipt = await app.submit("size", {"image": upload.file.id}, account="ana")
    await app.run_worker(burst=True)
    assert (await app.job(receipt.job_id)).result == len(PNG)


async def test_a_direct_upload_takes_its_room_and_is_bound_by_the_plan(app: Ficha, clock: ManualClock) -> None:
    with pytest.raises(TooLarge):
        await app.begin_upload("ana", "a", 1_001)
    first = await app.begin_upload("ana", "a", 1_000)
    with pytest.raises(QuotaExceeded):
        await app.begin_upload("ana", "b", 501)
    await app.begin_upload("ana", "b", 500)
    with pytest.raises(QuotaExceeded, match="allows 2 files"):
        await app.begin_upload("ana", "c", 0)
    with pytest.raises(InvalidState):
        await app.remove_file(first.file.id)
    # One that is never sent goes by itself.
    clock.advance(3_600)
    assert (await app.sweep()).files == 2
    with pytest.raises(NotFound):
        await app.complete_upload(first.file.id)
    await app.begin_upload("ana", "c", 1_000)


async def test_what_is_not_safe_to_keep_is_refused_and_leaves_nothing(app: Ficha, s3: S3Server, bucket: str) -> None:
    upload = await app.begin_upload("ana", "cat.png", len(PNG) - 30)
    (await send(upload, PNG[:-30])).raise_for_status()
    with pytest.raises(InvalidFile):
        await app.complete_upload(upload.file.id)
    with pytest.raises(NotFound):
        await app.complete_upload(upload.file.id)
    assert s3.keys(bucket) == 0
    assert (await app.queries.file_usage("ana")).files == 0
