"""The units for systemd: checked by systemd-analyze, and what they promise."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.manifests import UNITS, commands, grace_s, unit
from tests.support.processes import ForkedProcess
from tests.support.server_process import SECRET

EXPOSURE = 1.5
"""How exposed a service may be, by systemd's own measure: 0 is a closed box, 10 no protection at all."""


def test_there_are_a_server_workers_and_migrations() -> None:
    assert [path.name for path in UNITS] == ["ficha-migrate.service", "ficha-server.service", "ficha-worker@.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_service_can_write_to_its_own_folder_only(path: Path) -> None:
    found = unit(path)
    for name, value in {
        "User": "ficha",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "StateDirectory": "ficha",
        "UMask": "0077",
        "CapabilityBoundingSet": "",
    }.items():
        assert found[name] == [value], name
    assert "ReadWritePaths" not in found
    assert found["SystemCallFilter"] == ["@system-service", "~@privileged"]


@pytest.mark.parametrize("name", ["ficha-server.service", "ficha-worker@.service"])
def test_a_service_is_given_longer_to_stop_than_it_takes(name: str) -> None:
    [found] = [unit(path) for path in UNITS if path.name == name]
    assert float(found["TimeoutStopSec"][0]) >= grace_s(commands()[name]) + 5
    assert found["KillMode"] == ["mixed"]
    assert found["Type"] == ["notify"]
    assert found["Restart"] == ["always"]


def test_systemd_analyze_finds_nothing_and_calls_them_well_protected(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is missing; install it (on Debian: apt-get install systemd)"
    ficha = Path(sys.executable).parent / "ficha"
    for path in UNITS:
        # The command has to be there.
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/ficha/bin/ficha", str(ficha)))
    units = [f"./{path.name}" for path in UNITS]

    def analyze(*words: str) -> str:
        done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    assert analyze("verify", "--man=no", "--recursive-errors=no", *units) == ""
    for name in units:
        analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE * 10:.0f}", name)


def test_a_server_and_a_worker_tell_their_manager_when_they_are_ready_and_when_they_stop(tmp_path: Path) -> None:
    """As `Type=notify` expects it: over a socket that the environment names."""
    environment = {
        "FICHA_DATABASE_URL": f"sqlite:///{tmp_path / 'ficha.db'}",
        "FICHA_SECRET": SECRET,
        "FICHA_APP": "tests.server.shop:app",
        "FICHA_FILES_URL": f"file://{tmp_path}",
    }
    for words in (["serve", "--port", "0"], ["worker"]):
        place = tmp_path / words[0]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(place))
            manager.settimeout(60)
            log = (tmp_path / f"{words[0]}.log").open("w")
            process = ForkedProcess(
                "ficha.cli", words, env={**environment, "NOTIFY_SOCKET": str(place)}, stdout=log, stderr=log
            )
            try:
                assert manager.recv(100) == b"READY=1"
                process.terminate()
                assert manager.recv(100) == b"STOPPING=1"
                assert process.wait(60) == 0
            finally:
                process.kill()
                log.close()


@pytest.mark.parametrize("address", ["", "not a path", "/nobody/listens/here", "@nobody-listens-here"])
def test_a_manager_that_is_not_there_is_no_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ficha.cli.service_manager import tell

    monkeypatch.setenv("NOTIFY_SOCKET", address)
    tell("READY=1")


def test_a_manager_may_listen_at_an_abstract_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from ficha.cli.service_manager import tell

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + manager.getsockname()[1:].decode())
        tell("READY=1")
        assert manager.recv(100) == b"READY=1"
