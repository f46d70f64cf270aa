"""The units for systemd: checked by systemd-analyze, and what they promise."""

import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvicorn

from tests.deploy.manifests import ROOT, UNITS, commands, grace_s, unit
from tests.support.processes import ForkedProcess
from tests.support.server_process import SECRET

GUIDE = (ROOT / "docs" / "deployment.md").read_text()
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
    # Or systemd gives up after five starts in ten seconds.
    assert found["StartLimitIntervalSec"] == ["0"]


def test_the_guide_installs_a_release_where_the_units_run_it() -> None:
    for path in UNITS:
        found = unit(path)
        assert found["ExecStart"][0].startswith("/opt/ficha/current/bin/ficha ")
        assert found["WorkingDirectory"] == ["/opt/ficha/current/app"]
        # On several machines ficha.env says where files are, which goes before this.
        assert found["Environment"][-1] == "FICHA_FILES_URL=file:///var/lib/ficha/files"
        assert found["EnvironmentFile"][0] == "/etc/ficha/ficha.env"
    chapter = GUIDE.partition("## One machine with systemd")[2].partition("## Containers")[0]
    for said in (
        "R=/opt/ficha/releases/42",
        "install -D -m 0644 app.py $R/app/app.py",
        "ln -sfn $R /opt/ficha/current",
        "systemctl restart ficha-migrate",
    ):
        assert said in chapter
    assert "/srv/ficha/app" not in chapter
    # The units that it enables, restarts and edits are those that there are.
    named = set(re.findall(r"\bficha-(?:server|worker@|migrate)", chapter))
    assert {f"{name}.service" for name in named} == {path.name for path in UNITS}


def test_a_release_is_switched_beside_the_one_that_runs(tmp_path: Path) -> None:
    """As the guide does it: what runs keeps its own folder, and going back is one command."""
    for number in ("42", "43"):
        app = tmp_path / "releases" / number / "app"
        app.mkdir(parents=True)
        (app / "app.py").write_text(f"RELEASE = {number}")
    current = tmp_path / "current"

    def switched(number: str) -> None:
        subprocess.run(["/bin/ln", "-sfn", str(tmp_path / "releases" / number), str(current)], check=True)

    code = "import sys, app; print(app.RELEASE, flush=True); sys.stdin.readline(); import os; print(os.getcwd())"
    for number in ("42", "43", "42"):
        switched(number)
        with subprocess.Popen(
            [sys.executable, "-c", code], cwd=current / "app", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{number}\n"
            switched("43")
            assert process.communicate("go on\n", timeout=30)[0] == f"{tmp_path}/releases/{number}/app\n"


def test_the_drop_in_for_a_server_of_your_own_is_one_that_systemd_takes(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is missing; install it (on Debian: apt-get install systemd)"
    [drop_in] = re.findall(r"```ini\n(# systemctl edit ficha-server\n.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "ficha-server.service.d").mkdir()
    here = str(Path(sys.executable).parent)
    for path, text in {
        "ficha-server.service": next(path for path in UNITS if "server" in path.name).read_text(),
        "ficha-server.service.d/override.conf": drop_in,
    }.items():
        (tmp_path / path).write_text(text.replace("/opt/ficha/current/bin", here))
    done = subprocess.run(
        [program, "verify", "--man=no", "--recursive-errors=no", "./ficha-server.service"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    words = shlex.split(drop_in.splitlines()[-1].partition("=")[2])
    assert (words[0], words[1]) == ("/opt/ficha/current/bin/uvicorn", "app:web")
    parsed = uvicorn.main.make_context("uvicorn", words[1:], resilient_parsing=False)
    assert parsed.params["timeout_graceful_shutdown"] == 30


def test_systemd_analyze_finds_nothing_and_calls_them_well_protected(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is missing; install it (on Debian: apt-get install systemd)"
    ficha = Path(sys.executable).parent / "ficha"
    for path in UNITS:
        # The command has to be there.
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/ficha/current/bin/ficha", str(ficha)))
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
