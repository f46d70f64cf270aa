"""Writes jobs that are removed by their age to a file before they are removed: JSON Lines, compressed with gzip.

Every part is a gzip member of its own, and is on the disk before the jobs in it are removed. Members in a row are one
gzip file; if the process is killed, the last member may be cut off, but then its jobs were not removed.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from .core.outcomes import Removal
from .core.records import Event
from .engine.views import JobView, moment
from .ids import new_id

_encoder = msgspec.json.Encoder()


class ExportedJob(Struct, frozen=True):
    """One line: a job with all that belongs to it, and which part of it is removed. Bytes of files are not in it."""

    leaves: Removal
    job: JobView
    steps: dict[str, msgspec.Raw]
    events: list[Event]


class ExportFailed(OSError):
    """Jobs could not be written to the file, so they were not removed."""


class PruneExport:
    """A new file in a folder, created with the first job."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._path = self._folder
        self._out: BinaryIO | None = None

    @property
    def path(self) -> str | None:
        """The file's path; None while nothing was written."""
        return None if self._out is None else str(self._path)

    def write(self, jobs: Iterable[ExportedJob], now: int) -> None:
        """Writes jobs; returns once they are on the disk. `now` of the first call begins the file's name. Raises
        ExportFailed."""
        lines = b"".join(_encoder.encode(job) + b"\n" for job in jobs)
        if not lines:
            return
        try:
            out = self._out = self._out or self._opened(now)
            out.write(gzip.compress(lines))
            out.flush()
            os.fsync(out.fileno())
        except OSError as error:
            raise ExportFailed(
                f"what leaves cannot be written to the folder {self._folder} ({error.strerror}), so no more was "
                "removed; name a folder with room that you may write to"
            ) from error

    def _opened(self, now: int) -> BinaryIO:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f"{moment(now):%Y%m%dT%H%M%SZ}-{new_id()[-8:]}.jsonl.gz"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        _flush_folder(self._folder)
        return os.fdopen(descriptor, "wb")

    def close(self) -> None:
        if self._out is not None:
            self._out.close()


def _flush_folder(folder: Path) -> None:
    """Flushes a folder, so that the name of a new file in it is on the disk too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
