"""The steps of the Dockerfile by hand: the wheel and the locked packages in a bare environment, and a server, a worker
and the migrations there, as a user without rights on a file system that is read-only but for the declared folders."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest
import yaml

from tests.deploy.manifests import DEPLOY, ROOT, last_stage
from tests.support.server_process import NO_TLS, SECRET
from tests.support.waiting import until_sync

SANDBOX = Path(__file__).parent / "sandbox.sh"
UV = Path(sys.executable).parent / "uv"
USER = 10001
UNSHARE, SH, CHMOD = "/usr/bin/unshare", "/bin/sh", "/bin/chmod"

pytestmark = pytest.mark.long


@cache
def may_mount() -> bool:
    """Elsewhere the files' own rights have to do: the command runs as a user who may write to nothing there."""
    if os.geteuid() != 0 or not os.path.exists(UNSHARE):
        return False
    return subprocess.run([UNSHARE, "--mount", "/bin/true"], check=False).returncode == 0


class Container:
    """What a container would be: programs in a folder that nobody can write to, and two folders that can be."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.app = folder / "opt", folder / "app"
        self.state, self.scratch = folder / "state", folder / "scratch"
        for place in (self.app, self.state, self.scratch):
            place.mkdir()
        if os.geteuid() == 0:
            for place in (self.state, self.scratch):
                os.chown(place, USER, USER)

    def command(self, *words: str) -> list[str]:
        command = [str(self.programs / "bin" / words[0]), *words[1:]]
        if not may_mount():
            return command
        # A process tree of its own, too: as in a container the command is the first process, which signals pass by
        # unless it wants them.
        sandbox = [UNSHARE, "--mount", "--pid", "--fork", "--kill-child", SH, SANDBOX, self.state, self.scratch]
        return [*map(str, sandbox), *command]

    def environment(self) -> dict[str, str]:
        [declared] = [rest for name, rest in last_stage(DEPLOY / "docker" / "Dockerfile") if name == "ENV"]
        found = dict(word.split("=", 1) for word in shlex.split(declared))
        found["PATH"] = f"{self.programs}/bin:/usr/bin:/bin"
        found |= {"FICHA_SECRET": SECRET, "TMPDIR": str(self.scratch), "HOME": "/nonexistent"}
        return {name: value.replace("/var/lib/ficha", str(self.state)) for name, value in found.items()}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words),
            cwd=self.app,
            env=self.environment(),
            user=USER if os.geteuid() == 0 and not may_mount() else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        return out


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    # Not pytest's folder: it is closed to other users.
    folder = Path(f"/var/tmp/ficha-container-{os.getpid()}")  # noqa: S108 (its name is this process's own)
    folder.mkdir(mode=0o755)
    try:
        container = Container(folder)
        dist = tmp_path_factory.mktemp("dist")
        for words in (
            [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(dist)],
            [UV, "venv", "--quiet", "--python", _python(), container.programs],
        ):
            subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
        [wheel] = dist.glob("ficha-*.whl")
        install = [UV, "pip", "install", "--quiet", "--python", container.programs / "bin" / "python"]
        # The same options as in the Dockerfile: exactly what is locked, by hash, and nothing compiled.
        locked = ["--require-hashes", "--only-binary", ":all:", "-r", ROOT / "requirements" / "runtime.txt"]
        for words in (locked, ["--no-deps", wheel]):
            # Copied, not linked to uv's own cache, which others may not read.
            subprocess.run([*install, "--link-mode", "copy", *words], check=True, timeout=100)
        subprocess.run([UV, "pip", "check", "--python", container.programs / "bin" / "python"], check=True)
        for name in ("app.py", "draw.py", "pictures"):
            source = ROOT / "examples" / "images" / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, container.app / name)
        subprocess.run([CHMOD, "--recursive", "a+rX,a-w", container.programs, container.app], check=True)
        yield container
    finally:
        subprocess.run([CHMOD, "--recursive", "u+w", folder], check=True)
        shutil.rmtree(folder)


def _python() -> str:
    """A Python that the user may run."""
    user = USER if os.geteuid() == 0 else None
    for program in (sys._base_executable, "/usr/bin/python3", "/usr/local/bin/python3"):  # type: ignore[attr-defined]
        check = [program, "-c", "import sys, sqlite3; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(check, user=user, cwd="/", capture_output=True, check=False).returncode == 0:
                return str(program)
        except OSError:
            continue
    raise AssertionError("there is no Python from 3.11 on that everybody may run")


def test_nothing_but_the_two_folders_can_be_written_to(container: Container) -> None:
    tried = [container.programs, container.app, container.state, container.scratch]
    if may_mount():
        tried += [Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]  # noqa: S108 (they must be closed)
    code = """
import os, sys
assert os.geteuid() != 0
for place in sys.argv[1:]:
    try:
        open(os.path.join(place, "written"), "w").close()
    except OSError:
        continue
    print(place)
"""
    written = container.run("python", "-c", code, *map(str, tried)).split()
    assert written == [str(container.state), str(container.scratch)]
    if may_mount():
        status = container.run("python", "-c", "print(open('/proc/self/status').read())")
        assert re.search(r"CapBnd:\s*0+$", status, re.MULTILINE)
        assert re.search(r"NoNewPrivs:\s*1$", status, re.MULTILINE)


@pytest.mark.timeout(240)
def test_a_server_and_a_worker_live_there(container: Container) -> None:
    container.run("ficha", "migrate", "up")
    container.run("ficha", "account", "create", "ana", "--plan", "pro", "--credits", "100")
    key = container.run("ficha", "apikey", "create", "ana", "--account", "ana").split()[-1]
    server = container.start("ficha", "serve", "--host", "127.0.0.1", "--port", "0", "--log", "json")
    try:
        assert server.stderr is not None
        url = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.]+:\d+", line)))
        with httpx.Client(base_url=url, trust_env=False, verify=NO_TLS) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 200
            # The image's own check of its health.
            [check] = [rest for name, rest in last_stage(DEPLOY / "docker" / "Dockerfile") if name == "HEALTHCHECK"]
            words = yaml.safe_load(check.partition("CMD ")[2])
            container.run(*[word.replace("http://127.0.0.1:8000", url) for word in words])
            client.headers["Authorization"] = f"Bearer {key}"
            asked = {"tool": "thumbnail", "payload": {"picture": "lighthouse", "size": 16}}
            job = client.post("/api/jobs", json=asked).raise_for_status().json()["job_id"]
            container.run("ficha", "worker", "--burst", "--log", "json")
            done = until_sync(
                lambda: (found := client.get(f"/api/jobs/{job}").json())["status"] == "completed" and found
            )
            assert done["result"]["width"] <= 16
        _terminate(server)
        assert server.wait(60) == 0, "it ends well at SIGTERM, as the first process too"
    finally:
        server.kill()
        server.communicate()
    container.run("ficha", "verify")
    made = {path.relative_to(container.state).parts[0] for path in container.state.rglob("*")}
    assert made <= {"ficha.db", "ficha.db-wal", "ficha.db-shm", "files", "written"}, made


def _terminate(process: subprocess.Popen[str]) -> None:
    """Sends SIGTERM to the command itself: `unshare` is its parent."""
    pid = process.pid
    if may_mount():
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    os.kill(pid, 15)
