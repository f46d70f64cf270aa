"""A run while a worker holds it: the claim, and what the worker writes until the run ends (see `endings.py`)."""

from __future__ import annotations

from ..checkpoints import Checkpoints
from .base import Command


class Claim(Command, frozen=True):
    """Leases up to `limit` ready jobs of the pools, best rank first. With `starts`, their handlers begin at once; with
    `keeps_apart`, suspects are left out (see `suspects.py`)."""

    worker: str
    pools: tuple[str, ...]
    limit: int = 1
    starts: bool = False
    keeps_apart: bool = False


class ClaimJob(Command, frozen=True):
    """Leases one job by its id, for a caller that was given this id; `pool` is the job's own."""

    worker: str
    pool: str
    job_id: str
    starts: bool = False


class Heartbeat(Command, frozen=True):
    """The worker still holds the job. With `starts`, its handler begins now: `starting` becomes `running`."""

    job_id: str
    epoch: int
    starts: bool = False


class SaveCheckpoint(Command, frozen=True):
    job_id: str
    epoch: int
    name: str
    progress: int = 0
    data: str = "{}"
    declared: Checkpoints | None = None
    """What the tool declares; None if it declares none, so that any name may be saved."""


class SaveStep(Command, frozen=True):
    job_id: str
    epoch: int
    name: str
    result_json: str


class Report(Command, frozen=True):
    """The job's progress (percent) and partial result (JSON text); None leaves either as it was."""

    job_id: str
    epoch: int
    progress: int | None = None
    partial_json: str | None = None


class Note(Command, frozen=True):
    """An event for the job's history, from its handler. `left_out`: no line, but how many were not kept."""

    job_id: str
    epoch: int
    line: str
    left_out: int = 0
