"""The base of every question. Each question is in the file of its noun, with the type of its answer."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Query(Struct, Generic[T], frozen=True):
    """A query of the read side; `T` is the type of its answer."""
