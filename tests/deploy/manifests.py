"""What the files under deploy/ say: read once, for the tests of all of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILES = sorted((DEPLOY / "docker").glob("*Dockerfile"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile and their arguments, continued lines joined."""
    lines = [line for line in dockerfile.read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def last_stage(dockerfile: Path) -> list[tuple[str, str]]:
    found = instructions(dockerfile)
    start = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


def unit(path: Path) -> dict[str, list[str]]:
    """The settings of a unit, whatever their section, in their order."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            found.setdefault(name, []).append(value)
    return found


def kubernetes(folder: str = "*") -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted((DEPLOY / "kubernetes").glob(f"{folder}/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path, document


def of_kind(*kinds: str) -> dict[str, dict[str, Any]]:
    """Objects by name."""
    return {found["metadata"]["name"]: found for _, found in kubernetes() if found["kind"] in kinds}


def pods() -> dict[str, dict[str, Any]]:
    """What Kubernetes runs, by name."""
    return {name: found["spec"]["template"]["spec"] for name, found in of_kind("Deployment", "Job").items()}


def commands() -> dict[str, list[str]]:
    """Every command line of `ficha` in these files, without its first word."""
    found: dict[str, list[str]] = {}
    for name, service in COMPOSE["services"].items():
        if service.get("image") == "ficha":
            found[f"compose: {name}"] = service["command"]
    for path in UNITS:
        [line] = unit(path)["ExecStart"]
        program, *words = shlex.split(line)
        assert program == "/opt/ficha/current/bin/ficha", line
        found[path.name] = words
    for name, pod in pods().items():
        [container] = pod["containers"]
        found[f"kubernetes: {name}"] = container["args"]
    [command] = [rest for name, rest in last_stage(DEPLOY / "docker" / "Dockerfile") if name == "CMD"]
    found["Dockerfile"] = yaml.safe_load(command)
    return found


def grace_s(words: list[str]) -> float:
    """How long a command line lets requests or jobs end; the commands' own default is 30 s."""
    return float(words[words.index("--grace") + 1]) if "--grace" in words else 30.0


def texts() -> dict[str, str]:
    """Every file under deploy/, by its path there."""
    return {
        str(path.relative_to(DEPLOY)): path.read_text()
        for path in sorted(DEPLOY.rglob("*"))
        if path.is_file() and path.name != ".env" and path.suffix not in (".pyc", ".png")
    }
