"""The Dockerfiles: linted by hadolint, and what they promise."""

import fnmatch
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY, DOCKERFILES, ROOT, instructions, last_stage

FICHA = DEPLOY / "docker" / "Dockerfile"


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [hadolint, "--no-color", "--strict-labels", *DOCKERFILES],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_runs_as_nobody_special_and_says_how_it_is(path: Path) -> None:
    words = dict(last_stage(path))
    user, group = words["USER"].split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert "CMD [" in words["HEALTHCHECK"]
    # In this form the first process is the program itself, and gets the signals.
    assert json.loads(words["ENTRYPOINT"])
    assert words["STOPSIGNAL"] in ("SIGTERM", "SIGINT")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_is_made_of_named_versions_and_of_files_that_are_there(path: Path) -> None:
    found = instructions(path)
    images = {rest.partition("=")[2] for name, rest in found if name == "ARG"}
    assert images
    assert all(re.fullmatch(r"[a-z]+:[\w.-]+(@sha256:\w{64})?", image) for image in images), images
    assert not any(image.endswith(":latest") for image in images)
    assert all(rest.startswith("${") for name, rest in found if name == "FROM")
    assert "ADD" not in {name for name, _ in found}
    for source in sources(found):
        assert (ROOT / source).exists(), source
        assert is_sent(source), f"{source} is left out by .dockerignore"


def sources(found: list[tuple[str, str]]) -> list[str]:
    """What is copied from the repository."""
    copied = [shlex.split(rest) for name, rest in found if name == "COPY" and "--from=" not in rest]
    return [source for words in copied for source in words[:-1]]


def is_sent(path: str) -> bool:
    """Whether .dockerignore lets a path through: the last pattern that fits decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern = line.removeprefix("!").strip("/")
            parts = path.strip("/").split("/")
            tops = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
            if any(fnmatch.fnmatch(top, pattern) or _anywhere(top, pattern) for top in tops):
                sent = line.startswith("!")
    return sent


def _anywhere(path: str, pattern: str) -> bool:
    return pattern.startswith("**/") and fnmatch.fnmatch(path.rpartition("/")[2], pattern[3:])


@pytest.mark.parametrize(
    "path",
    [".git/config", ".env", "deploy/.env", "deploy/app.env", ".venv/bin/python", "ficha.db", "web/node_modules/x/y.js"],
)
def test_secrets_and_leftovers_are_not_sent_to_the_builder(path: str) -> None:
    assert not is_sent(path)


def test_everything_installed_is_pinned_by_hash() -> None:
    installs = [
        part for name, rest in instructions(FICHA) if name == "RUN" for part in rest.split("&&") if " install" in part
    ]
    pips = [part for part in installs if part.lstrip().startswith("pip")]
    assert len(pips) == 3
    for part in pips:
        assert "--require-hashes --only-binary :all: -r " in part or "--no-deps --no-index " in part, part
    assert any("npm ci" in rest for name, rest in instructions(FICHA) if name == "RUN")
    lock = (ROOT / "requirements" / "build.txt").read_text()
    assert set(re.findall(r"^([a-z-]+)==", lock, re.MULTILINE)) >= {"hatchling", "packaging", "pathspec", "pluggy"}
    assert lock.count("==") <= lock.count("--hash=sha256:")
    # The same versions as those that the tests run with.
    developed = (ROOT / "requirements" / "dev.txt").read_text()
    assert all(f"\n{pin} " in developed for pin in re.findall(r"^[a-z-]+==\S+", lock, re.MULTILINE))


def test_only_declared_folders_are_written_to() -> None:
    words = last_stage(FICHA)
    assert [json.loads(rest) for name, rest in words if name == "VOLUME"] == [["/var/lib/ficha"]]
    [environment] = [rest for name, rest in words if name == "ENV"]
    assert "FICHA_DATABASE_URL=sqlite:////var/lib/ficha/" in environment
    assert "FICHA_FILES_URL=file:///var/lib/ficha/" in environment
    assert "PYTHONDONTWRITEBYTECODE=1" in environment
