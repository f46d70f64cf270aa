"""Each test of storage runs on local disk and against an S3-compatible server process."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from ficha.files.storage import FileStorage, open_storage
from tests.support.s3_server import KEYS, S3Server, s3_server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def s3_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket() -> str:
    return f"bucket-{uuid4().hex[:12]}"


@pytest.fixture
async def local_disk(tmp_path: Path) -> AsyncIterator[FileStorage]:
    storage = open_storage(f"file:{tmp_path}/files")
    yield storage
    await storage.close()


@pytest.fixture
async def s3_storage(s3: S3Server, s3_keys: None, bucket: str) -> AsyncIterator[FileStorage]:
    storage = open_storage(s3.bucket(bucket))
    yield storage
    await storage.close()


@pytest.fixture(params=["local_disk", "s3_storage"])
def storage(request: pytest.FixtureRequest) -> FileStorage:
    storage: FileStorage = request.getfixturevalue(request.param)
    return storage
