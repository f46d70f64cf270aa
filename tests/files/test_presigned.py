"""Direct uploads and downloads: what a URL allows, and that a file no longer changes once it is accepted."""

import hashlib
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.session import get_session

from ficha.files.s3_signing import Credentials, presigned
from ficha.files.storage import FileMissing, FileStorage, FileTooLarge, open_storage

KEY = "account/file-1"
TYPE = "image/png"


async def upload(storage: FileStorage, content: bytes) -> str:
    url = await storage.presign_put(KEY, 60, len(content), TYPE)
    assert url is not None
    async with httpx.AsyncClient() as http:
        (await http.put(url, content=content, headers={"Content-Type": TYPE})).raise_for_status()
    return url


async def read(storage: FileStorage) -> bytes:
    return b"".join([chunk async for chunk in storage.get(KEY)])


@pytest.mark.parametrize("token", [None, "a-token/+="])
@pytest.mark.parametrize("method", ["put", "get"])
def test_a_url_is_signed_as_amazon_signs_it(method: str, token: str | None) -> None:
    """botocore, Amazon's own, makes the same URL: so a store that checks signatures takes it, headers included."""
    session = get_session()
    session.set_credentials("AKID", "secret/+", token)
    client = boto3.Session(botocore_session=session).client(
        "s3",
        region_name="eu-west-1",
        endpoint_url="https://store.example:9000",
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    place = {"Bucket": "bucket", "Key": "some/prefix/a_b-c"}
    if method == "put":
        headers, query = {"content-length": "123", "content-type": TYPE}, {}
        wanted = place | {"ContentLength": 123, "ContentType": TYPE}
    else:
        headers, query = (
            {},
            {"response-content-type": TYPE, "response-content-disposition": 'attachment; filename="a b"'},
        )
        wanted = place | {"ResponseContentType": TYPE, "ResponseContentDisposition": 'attachment; filename="a b"'}
    theirs = client.generate_presigned_url(f"{method}_object", wanted, ExpiresIn=60)
    made = datetime.strptime(parse_qs(urlsplit(theirs).query)["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    url = "https://store.example:9000/bucket/some/prefix/a_b-c"
    credentials = Credentials("AKID", "secret/+", token)
    ours = presigned(credentials, "eu-west-1", method.upper(), url, made, 60, headers, query)
    assert urlsplit(ours)[:3] == urlsplit(theirs)[:3]
    assert parse_qs(urlsplit(ours).query) == parse_qs(urlsplit(theirs).query)


async def test_what_was_uploaded_directly_is_a_file_once_it_is_accepted(s3_storage: FileStorage) -> None:
    await upload(s3_storage, b"content")
    assert await s3_storage.size(KEY) is None
    stored = await s3_storage.accept(KEY, 100)
    assert (stored.size, stored.digest, stored.head) == (7, hashlib.sha256(b"content").hexdigest(), b"content")
    assert await read(s3_storage) == b"content"


async def test_a_url_that_is_still_valid_cannot_change_a_file_that_was_accepted(s3_storage: FileStorage) -> None:
    url = await upload(s3_storage, b"harmless")
    await s3_storage.accept(KEY, 100)
    async with httpx.AsyncClient() as http:
        (await http.put(url, content=b"harmful!", headers={"Content-Type": TYPE})).raise_for_status()
    assert await read(s3_storage) == b"harmless"


async def test_what_was_accepted_stays_also_for_who_accepts_again(s3_storage: FileStorage) -> None:
    """The caller who accepted may still inspect it, or may have died."""
    url = await upload(s3_storage, b"harmless")
    stored = await s3_storage.accept(KEY, 100)
    assert (await s3_storage.accept(KEY, 100)).digest == stored.digest
    async with httpx.AsyncClient() as http:
        (await http.put(url, content=b"harmful!", headers={"Content-Type": TYPE})).raise_for_status()
    assert (await s3_storage.accept(KEY, 100)).digest == stored.digest
    assert await read(s3_storage) == b"harmless"


async def test_a_url_binds_the_size_and_the_type(s3_storage: FileStorage) -> None:
    url = await s3_storage.presign_put(KEY, 60, 7, TYPE)
    assert url is not None
    assert parse_qs(urlsplit(url).query)["X-Amz-SignedHeaders"] == ["content-length;content-type;host"]


async def test_what_is_larger_than_allowed_is_refused_and_removed(s3_storage: FileStorage) -> None:
    await upload(s3_storage, b"content")
    with pytest.raises(FileTooLarge):
        await s3_storage.accept(KEY, 6)
    with pytest.raises(FileMissing, match="PUT the file"):
        await s3_storage.accept(KEY, 100)


async def test_nothing_can_be_accepted_that_did_not_come(storage: FileStorage) -> None:
    with pytest.raises(FileMissing, match="PUT the file"):
        await storage.accept(KEY, 100)


async def test_deleting_a_file_also_removes_what_came_and_was_not_accepted(s3_storage: FileStorage) -> None:
    await upload(s3_storage, b"content")
    await s3_storage.delete(KEY)
    with pytest.raises(FileMissing):
        await s3_storage.accept(KEY, 100)


async def test_a_download_url_tells_the_store_which_headers_to_answer_with(s3_storage: FileStorage) -> None:
    await upload(s3_storage, b"content")
    await s3_storage.accept(KEY, 100)
    url = await s3_storage.presign_get(KEY, 60, TYPE, 'attachment; filename="a.png"')
    assert url is not None
    async with httpx.AsyncClient() as http:
        answer = await http.get(url)
    assert (answer.content, answer.headers["content-type"]) == (b"content", TYPE)
    assert answer.headers["content-disposition"] == 'attachment; filename="a.png"'


async def test_local_disk_gives_no_direct_urls(local_disk: FileStorage) -> None:
    assert await local_disk.presign_put(KEY, 60, 7, TYPE) is None
    assert await local_disk.presign_get(KEY, 60, TYPE, "attachment") is None


async def test_a_store_whose_secret_is_not_known_gives_no_direct_urls(
    s3_storage: FileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine's role signs, uploads and downloads go through the server."""
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert await s3_storage.presign_put(KEY, 60, 7, TYPE) is None


async def test_virtual_hosts_have_the_bucket_in_their_name(s3_keys: None) -> None:
    url = await open_storage("s3://bucket/x?region=eu-west-1&virtual_hosts=1").presign_get(KEY, 60, TYPE, "attachment")
    assert url is not None
    assert url.startswith("https://bucket.s3.eu-west-1.amazonaws.com/x/account/file-1?")
