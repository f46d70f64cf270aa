"""Which commands a decision was made for: the store is given only the changes and the outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import ficha.engine.committer
from ficha.core.commands import Command
from ficha.core.decide import decide
from ficha.core.outcomes import Outcome
from ficha.core.policy import Policy
from ficha.core.snapshot import Changes, Snapshot


class Decisions:
    """Remembers the last decision until the store, which called for it, takes it."""

    def __init__(self) -> None:
        self._last: tuple[Changes, tuple[Command, ...]] | None = None

    @contextmanager
    def overheard(self) -> Iterator[None]:
        with patch.object(ficha.engine.committer, "decide", self._decide):
            yield

    def _decide(self, snapshot: Snapshot, group: Iterable[Command], policy: Policy) -> tuple[Changes, list[Outcome]]:
        commands = tuple(group)
        changes, outcomes = decide(snapshot, commands, policy)
        self._last = (changes, commands)
        return changes, outcomes

    def commands(self, changes: Changes) -> tuple[Any, ...]:
        assert self._last is not None
        assert self._last[0] is changes, "the decision of another group came in between"
        return self._last[1]
