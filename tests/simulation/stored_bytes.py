"""A file storage that fails at times, users who upload into it, and whether rows and bytes agree in the end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator
from typing import Any

import msgspec

from ficha.core.dataset import State
from ficha.core.records import File
from ficha.files.storage import ByteCount, FileMissing, FileStorage, StorageAway, StorageFull, StoredBytes
from ficha.operations.files import storage_key
from ficha.outbound.http_client import Answer

from .application import COPY, UPLOAD_S
from .clients import Client
from .machines import Lost
from .network import Network, Request


class Bucket:
    """The bytes that all processes share, and how badly they are kept."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.badness = network.random.choice((0.0, 0.05, 0.3))
        self.bytes: dict[str, bytes] = {}

    def calm(self) -> None:
        self.badness = 0.0

    async def travel(self) -> None:
        await asyncio.sleep(self.network.latency_s())
        if self.network.random.random() < self.badness:
            raise StorageAway


class SimulatedStorage(FileStorage):
    """One process's way to the bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def put(self, key: str, chunks: AsyncIterable[bytes], most_bytes: int) -> StoredBytes:
        bucket, counted, gathered = self._bucket, ByteCount(most_bytes), b""
        async for chunk in chunks:
            counted.count(chunk)
            counted.digest(chunk)
            gathered += chunk
        await bucket.travel()
        if bucket.network.random.random() < bucket.badness / 2:
            raise StorageFull
        # What was sent is stored, also where its sender dies meanwhile.
        stored = asyncio.get_running_loop().create_future()

        def store() -> None:
            bucket.bytes[key] = gathered
            if not stored.done():
                stored.set_result(None)

        bucket.network.later(bucket.network.latency_s(), store)
        await stored
        await bucket.travel()
        return counted.stored()

    async def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        await self._bucket.travel()
        if key not in self._bucket.bytes:
            raise FileMissing
        yield self._bucket.bytes[key][start:end]

    async def delete(self, key: str) -> None:
        await self._bucket.travel()
        self._bucket.bytes.pop(key, None)
        await self._bucket.travel()

    async def size(self, key: str) -> int | None:
        await self._bucket.travel()
        found = self._bucket.bytes.get(key)
        return None if found is None else len(found)


class FileSite:
    """Where a provider keeps what it made."""

    def __init__(self, host: str, bucket: Bucket) -> None:
        self.host = host
        self._bucket = bucket

    def send(self, timeout_s: float) -> None:
        """There is no limit."""

    def end(self, sent: Any) -> None:
        """There is no limit."""

    def serve(self, request: Request) -> tuple[float, Answer | None]:
        random = self._bucket.network.random
        if random.random() < self._bucket.badness:
            return 0.0, random.choice((None, Answer(500, {}), Answer(302, {})))
        return random.random() ** 2, Answer(200, {}, b"made of " + request.path.encode())


class FileUser(Client):
    """Uploads files, some of which never come, submits jobs that take them, and removes some."""

    async def run(self, acts: int) -> None:
        for _ in range(acts):
            await asyncio.sleep(self._random.expovariate(1.0) * 2)
            name = self._mark()
            fate = self._random.choice(("whole", "whole", "whole", "broken off", "silent"))
            stored = await self.ask(lambda app, name=name, fate=fate: app.receive(self.account, name, self._sent(fate)))
            if stored is None:
                continue
            if self._random.random() < 0.8:
                await self._send(COPY, {"mark": name, "image": stored.id}, name)
            if self._random.random() < 0.4:
                await asyncio.sleep(self._random.random() * 3)
                await self.ask(lambda app, stored=stored: app.remove_file(stored.id, account=self.account), tries=2)

    async def _sent(self, fate: str) -> AsyncIterator[bytes]:
        for _ in range(self._random.randint(1, 3)):
            await asyncio.sleep(self._random.random() * 0.3)
            yield self._random.randbytes(20)
        if fate == "broken off":
            raise Lost("the sender is gone")
        if fate == "silent":
            await asyncio.sleep(10 * UPLOAD_S)


def is_swept(state: State) -> bool:
    """Whether no file is on its way in or out."""
    return all(file.state == "stored" for file in state.of(File).values())


def wrong_files(state: State, bucket: Bucket, providers_tools: set[str]) -> Iterator[str]:
    """What is not so in the end. (That counters agree with rows is an invariant of the core.)"""
    files = state.of(File)
    expected = {storage_key(file): file for file in files.values()}
    for key in bucket.bytes.keys() - expected.keys():
        yield f"the bytes {key} lie in the storage, and no file is theirs"
    for key, file in expected.items():
        found = bucket.bytes.get(key)
        if file.state == "stored" and (found is None or hashlib.sha256(found).hexdigest() != file.digest):
            yield f"file {file.id} is stored, but its bytes are {'other ones' if found else 'gone'}"
        elif file.state != "stored":
            yield f"file {file.id} is still {file.state}"
    for job in state.jobs.values():
        if job.status == "completed" and job.spec.tool in providers_tools:
            for made in msgspec.json.decode(state.results[job.id])["files"]:
                if made["file"] not in files:
                    yield f"the file {made['file']} of job {job.id}, which was completed, is gone"
