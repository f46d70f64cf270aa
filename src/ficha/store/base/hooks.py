"""The questions for hooks: which are declared, and which are still to be run."""

from __future__ import annotations

from msgspec import Struct

from ...core.records import DeclaredHook, PendingHook
from .query import Query


class DeclaredHooks(Struct, frozen=True):
    """Declared hooks by name, and the database's time."""

    now: int
    hooks: list[DeclaredHook]


class ListDeclaredHooks(Query[DeclaredHooks], frozen=True):
    """All hooks that any process declared lately."""

    limit: int = 10_000


class OwedHook(Struct, frozen=True):
    """How many runs of a hook are still to be made, and when the first of them is, or was, due."""

    name: str
    count: int
    due_at: int


class CountHooks(Query[list[OwedHook]], frozen=True):
    """The hooks of which runs are still to be made, among the `limit` runs that are due first."""

    limit: int = 10_000


class ListHooks(Query[list[PendingHook]], frozen=True):
    """Hooks that are still to be run, the longest due first.

    names: only these; empty for all. is_due: only those that may be run by now, by the database's clock.
    """

    names: tuple[str, ...] = ()
    is_due: bool = False
    limit: int = 50
