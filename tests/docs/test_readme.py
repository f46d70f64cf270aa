"""The README: it begins with an install, and its examples run, also a second time in a row."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    """What is to be typed, without its explanations."""
    return [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines() if line.strip()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder, with the program of the README in it."""
    [program] = blocks("python")
    (tmp_path / "shop.py").write_text(program)
    return tmp_path


def variables(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": ".", **more}


def test_the_first_thing_to_type_is_the_install_with_extras_that_exist() -> None:
    assert README.index("```sh\npip install ") < README.index("```python")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {name for line in commands() if line.startswith("pip ") for name in re.findall(r"\[([\w,]+)\]", line)}
    assert named
    assert {name for names in named for name in names.split(",")} <= set(extras)


def test_it_names_the_two_commands_of_a_clone() -> None:
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", README))


def program(folder: Path) -> str:
    """Runs the program of the README; gives what it prints."""
    return subprocess.run(
        [sys.executable, "-W", "error", "shop.py"],
        cwd=folder,
        env=variables(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_the_program_runs_twice_in_a_row_and_is_paid_once(folder: Path) -> None:
    assert program(folder) == "queued 95\n{'image': 'CAT.PNG x2'}\n"
    assert program(folder) == "completed 95\n{'image': 'CAT.PNG x2'}\n"


def test_the_server_of_the_program_starts_twice_in_a_row(folder: Path) -> None:
    program(folder)
    lines = [line for line in commands() if line.startswith(("export FICHA_SECRET", "ficha apikey"))]
    [serve] = [line for line in commands() if line.startswith("ficha serve")]
    script = "\n".join([*lines, f"exec {serve} --port 0"])
    for _ in range(2):
        with subprocess.Popen(
            ["/bin/bash", "-euc", script],
            cwd=folder,
            env=variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            heard = [line for line in iter(process.stderr.readline, "") if stops(process, line)]
            said, _ = process.communicate(timeout=30)
        assert (process.returncode, len(heard)) == (0, 1), said
        assert said.startswith("ficha_admin_")


def stops(process: subprocess.Popen[str], line: str) -> bool:
    """Stops a server that says where it listens."""
    is_there = "listening at http" in line
    if is_there:
        process.send_signal(signal.SIGTERM)
    return is_there


def test_the_commands_for_postgresql_run_twice_in_a_row(folder: Path, postgres_url: str) -> None:
    [block] = [block for block in blocks("sh") if "ficha migrate up" in block]
    script = re.sub(r"postgresql://\S+", lambda _: f"'{postgres_url}'", block)
    assert postgres_url in script
    for _ in range(2):
        done = subprocess.run(
            ["/bin/bash", "-euc", script],
            cwd=folder,
            env=variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_other_command_is_known() -> None:
    """What is typed is run above, or is an install or a command of the Makefile."""
    run = (
        "export ",
        "ficha apikey",
        "ficha serve",
        "ficha migrate up",
        "ficha verify",
        "python shop.py",
        "pip install",
    )
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    others = [line for line in commands() if not line.startswith(run)]
    assert [line for line in others if not (line.startswith("make ") and line.split()[1] in targets)] == []
