"""The shop for pictures, as `ficha dev` runs it: the whole program, over HTTP."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

EXAMPLE = Path("examples/images").resolve()
FICHA = Path(sys.executable).with_name("ficha")


def loaded(name: str) -> ModuleType:
    """A file of the example as a module, under a name that no other test uses."""
    spec = importlib.util.spec_from_file_location(f"images_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(**environment: str) -> subprocess.CompletedProcess[str]:
    """One whole round trip."""
    return subprocess.run(
        [sys.executable, "check.py"],
        cwd=EXAMPLE,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.req("D3", "D4", "D5")
def test_the_plans_are_those_of_the_requirements() -> None:
    plans = loaded("app").app.policy.plans
    assert {name: (plan.priority, plan.max_running, plan.per_hour) for name, plan in plans.items()} == {
        "free": (50, 1, 10),
        "starter": (30, 2, 50),
        "growth": (20, 3, 100),
        "pro": (10, 4, 999),
    }


@pytest.mark.long
def test_the_demonstration_can_be_checked_and_all_is_well() -> None:
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "the picture was 120 x 90 and is 240 x 180" in said
    assert "no page was paid for twice" in said
    assert "it failed: the provider could not paint 'a storm' (attempt 2)" in said
    assert re.search(r"refund +\+7", said)
    assert said.endswith("All of it was as it must be.\n")


def test_a_check_that_finds_something_wrong_says_what_and_ends_with_1() -> None:
    done = check(FICHA_SECRET="short")  # noqa: S106 (it is not one)
    assert done.returncode == 1
    assert "FICHA_SECRET" in done.stdout
    assert "WRONG: it did not start" in done.stdout


def test_the_picture_is_the_one_that_the_script_draws() -> None:
    drawn = loaded("draw").lighthouse()
    with Image.open(EXAMPLE / "pictures" / "lighthouse.png") as kept:
        assert (kept.size, kept.convert("RGB").tobytes()) == (drawn.size, drawn.tobytes())


def test_the_lines_to_copy_work_as_they_are_printed(tmp_path: Path) -> None:
    dev = subprocess.Popen(
        [FICHA, "dev", "--app", "app:app", "--database", f"sqlite:///{tmp_path}/ficha.db", "--port", "0"],
        cwd=EXAMPLE,
        env={**os.environ, "PAID_CALLS": str(tmp_path / "paid")},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert dev.stderr is not None
        lines: dict[str, str] = {}
        while "worker started" not in (line := dev.stderr.readline()):
            assert line, lines
            lines[line[:8].strip()] = line[8:].strip()
        submitted = json.loads(copied(lines["submit"]))
        assert submitted.get("success") is True, submitted
        job_id = submitted["job_id"]
        assert [job["id"] for job in json.loads(copied(lines["look"]))["items"]] == [job_id]
        with subprocess.Popen(["/bin/sh", "-c", f"exec {lines['watch']}"], stdout=subprocess.PIPE, text=True) as watch:
            assert watch.stdout is not None
            for line in watch.stdout:
                if line.startswith("event: completed"):
                    break
            else:
                raise AssertionError("the stream ended before the job")
            watch.terminate()
        dev.send_signal(signal.SIGINT)
        assert dev.wait(20) == 0
    finally:
        dev.kill()
        dev.communicate()


def copied(line: str) -> str:
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=30, check=True).stdout
