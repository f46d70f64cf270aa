"""Questions about suspects, and about what a worker holds."""

from __future__ import annotations

from msgspec import Struct

from ...core.suspects import Suspect
from .query import Query


class ListSuspects(Query[list[Suspect]], frozen=True):
    """The ready jobs of these pools that have a lost run, best rank first."""

    pools: tuple[str, ...]
    limit: int


class Company(Struct, frozen=True):
    """How many jobs a worker holds, and how many of them have a lost run."""

    held: int
    suspects: int


class GetCompany(Query[Company], frozen=True):
    """What this worker holds now."""

    worker: str
