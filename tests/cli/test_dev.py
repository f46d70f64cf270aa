"""`ficha dev` as a server: where it listens, who may reach it, and the keys that it hands out."""

import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from ficha import Ficha
from tests.cli.running import Run
from tests.support.processes import ForkedProcess

Said = dict[str, list[str]]


@contextmanager
def developing(folder: Path, *arguments: str) -> Iterator[Said]:
    """What it printed, by the word that each line begins with; stopped by Ctrl-C."""
    dev = ForkedProcess(None, ["dev", *arguments], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert dev.stderr is not None
        said: Said = {}
        while "worker started" not in (line := dev.stderr.readline()):
            assert line, said
            said.setdefault(line.split()[0], []).append(line.rstrip("\n"))
        yield said
        dev.send_signal(signal.SIGINT)
        assert dev.wait(20) == 0
        assert "Traceback" not in dev.stderr.read()
    finally:
        dev.kill()
        dev.communicate()


def status(said: Said, key: str) -> int:
    [server] = said["server"]
    return httpx.get(
        f"{server.split()[1]}/api/account", headers={"Authorization": f"Bearer {key}"}, trust_env=False
    ).status_code


def test_each_start_hands_out_fresh_keys_that_end_within_a_day_and_ends_those_before(
    ficha: Run, shop: Callable[[], Ficha], folder: Path
) -> None:
    with developing(folder, "--port", "0") as said:
        first = [line.split()[1] for line in said["token"]]
        assert [key.startswith("ficha_user_") for key in first] == [True, True]
        assert [status(said, key) for key in first] == [200, 200]
        [admin] = [line.split()[1] for line in said["admin"]]
        assert admin.startswith("ficha_admin_")
    with developing(folder, "--port", "0") as said:
        assert [status(said, key) for key in first] == [401, 401]
        assert [status(said, line.split()[1]) for line in said["token"]] == [200, 200]
    keys = ficha("apikey", "list", "--json").items
    live = {key["name"] for key in keys if key["state"] == "live"}
    assert live == {"dev free", "dev pro", "dev admin"}
    assert len(keys) == 6
    assert all(key["expires_at"] is not None for key in keys)


def test_a_port_that_is_taken_is_said_and_the_next_one_used(shop: Callable[[], Ficha], folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with developing(folder, "--port", str(port)) as said:
            [server] = said["server"]
            used = int(re.findall(r":(\d+)$", server)[0])
            assert port < used < port + 20
            [note] = said["note:"]
            assert note == f"note: port {port} is taken by another program; using {used}"


def test_others_may_reach_it_only_with_a_secret_that_was_set(
    process: Run, shop: Callable[[], Ficha], folder: Path
) -> None:
    said = process("dev", "--host", "0.0.0.0", "--port", "0", expect=1).err  # noqa: S104 (that is what is refused)
    assert "0.0.0.0 can be reached from outside" in said
    assert "FICHA_SECRET is not set" in said
    assert not (folder / "ficha.db").exists()
