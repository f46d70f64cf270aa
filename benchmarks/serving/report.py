"""What was found, written down as that of the endurance is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ..endurance.findings import Findings, Measure
from ..endurance.report import _as_json, _table, _targets
from .sizes import Size

PARTS: Final = ("uvicorn", "fastapi", "starlette", "httptools")


def write(facts: Mapping[str, str], size: Size, found: Mapping[Measure, Findings], folder: Path) -> None:
    facts = {**facts, **{part: version(part) for part in PARTS}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "serving.json").write_text(json.dumps(_as_json(facts, size, found), indent=2) + "\n", encoding="utf-8")
    (folder / "SERVING.md").write_text(_markdown(facts, found), encoding="utf-8")


def _markdown(facts: Mapping[str, str], found: Mapping[Measure, Findings]) -> str:
    lines = [
        "# Serving",
        "",
        "Written by `python -m benchmarks.serving`, the third part of `make bench`. Absolute figures move from run to",
        "run and from machine to machine; compare within one run.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
    ]
    for measure, findings in found.items():
        lines += [f"## {measure.title}", "", *_table(_targets(findings))]
        for title, rows in findings.tables:
            lines += [f"### {title}", "", *_table(rows)]
        lines += [*(f"- {note}" for note in findings.notes), ""]
    return "\n".join(lines)
