"""The memory store's answers about brakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...core.records import Brake
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _list_brakes(store: MemoryStore, query: q.ListBrakes) -> list[Brake]:
    return sorted(store.state.of(Brake).values(), key=lambda brake: brake.name)


BRAKE_READS: Final[dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]]] = {
    q.ListBrakes: _list_brakes,
}
