"""What each process was told, written down the moment it was told.

A line goes to the system in one write, so it survives the kill of its process; only then is it counted anywhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

Line: TypeAlias = "dict[str, Any]"


class Record:
    """The file of one life of one process."""

    def __init__(self, folder: Path, name: str, life: int) -> None:
        self._file = os.open(
            folder / f"{name}.{life}.record", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def write(self, **line: Any) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def lines(folder: Path, name: str = "*") -> Iterator[Line]:
    """What all lives of the processes of that name wrote."""
    for path in sorted(folder.glob(f"{name}.*.record")):
        for text in path.read_text().splitlines():
            yield json.loads(text)
