"""Files with both clients and from a terminal, against a real server: uploaded, used, downloaded, removed."""

from pathlib import Path

import pytest

from ficha import InvalidPayload, NotFound
from ficha.client import AsyncClient, Client
from tests.cli.conftest import ficha, folder, process
from tests.cli.running import Run
from tests.client.test_walk import key_for
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

__all__ = ["ficha", "folder", "process"]

MISSING = "00000000-0000-7000-8000-ffffffffffff"


def test_a_file_s_way_with_the_client(server: Served, name: str, tmp_path: Path) -> None:
    path = tmp_path / 'a "cat".bin'
    path.write_bytes(bytes(range(256)) * 5_000)
    with Client(server.url, key_for(server, name)) as me:
        hold = me.reserve()
        file = me.upload(path, reservation=hold.id)
        assert (file.name, file.size, file.account, file.reservation) == ('a "cat".bin', 1_280_000, name, hold.id)
        assert [one.id for one in me.reservations().items[0].uploads] == [file.id]
        small = me.upload(b"meow", name="cat.txt")
        assert (me.file(small.id), [one.id for one in me.files().items]) == (small, [small.id, file.id])
        assert me.files(role="result").items == []
        assert me.download(small.id) == b"meow"
        assert b"".join(me.read_file(file.id)) == path.read_bytes()
        assert me.download(file.id, tmp_path / "copy") == b""
        assert (tmp_path / "copy").read_bytes() == path.read_bytes()
        receipt = me.submit("copy", {"picture": small.id})
        assert [one.id for one in me.job_files(receipt.job_id)] == [small.id]
        with pytest.raises(InvalidPayload):
            me.submit("copy", {"picture": MISSING})
        assert me.file_link(small.id, ttl_s=60).url.startswith(server.url)
        assert me.remove_file(small.id).state == "removed"
        for call in (me.file, me.remove_file, me.download, me.complete_upload, me.file_link):
            with pytest.raises(NotFound):
                call(small.id)
        with pytest.raises(NotFound):
            me.download(MISSING, tmp_path / "nothing")
        # A download that is refused leaves nothing, and not what was there before either way.
        assert sorted(one.name for one in tmp_path.iterdir()) == ['a "cat".bin', "copy"]


async def test_a_file_s_way_with_the_async_client(server: Served, name: str, tmp_path: Path) -> None:
    async with AsyncClient(server.url, key_for(server, name)) as me:
        (tmp_path / "cat.txt").write_bytes(b"meow" * 100_000)
        file = await me.upload(tmp_path / "cat.txt")
        assert (file.name, file.size) == ("cat.txt", 400_000)
        assert await me.download(file.id) == b"meow" * 100_000
        assert b"".join([piece async for piece in me.read_file(file.id)]) == b"meow" * 100_000


def test_a_file_s_way_from_a_terminal(
    ficha: Run, server: Served, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "cat.txt").write_bytes(b"meow")
    monkeypatch.setenv("FICHA_URL", server.url)
    monkeypatch.setenv("FICHA_TOKEN", key_for(server, name))
    told = ficha("upload", "cat.txt", "--json").data
    assert (told["name"], told["size"]) == ("cat.txt", 4)
    assert ficha("files", "--json").data["id"] == told["id"]
    ficha("download", told["id"], "--to", "copy")
    assert (folder / "copy").read_bytes() == b"meow"
    assert ficha("remove-file", told["id"], "--json").data["state"] == "removed"
    assert ficha("remove-file", told["id"], "--json", expect=1).error["code"] == "NOT_FOUND"


def test_a_file_s_way_from_a_terminal_without_a_server(process: Run, folder: Path) -> None:
    (folder / "cat.txt").write_bytes(b"meow")
    process("account", "create", "ana")
    file = process("upload", "cat.txt", "--account", "ana", "--name", "dog.txt").out.strip()
    assert process("files", "--json").data["name"] == "dog.txt"
    assert process("download", file).out == "meow"
    process("remove-file", file)
    assert process("files", "--json").items == []
    assert [path for path in (folder / "ficha-files").rglob("*") if path.is_file()] == []
