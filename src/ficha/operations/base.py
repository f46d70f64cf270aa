"""What every group of operations stands on: the engine, the read side, the tools and the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ..arguments import Limits
from ..core.commands import Command
from ..core.outcomes import Outcome, Refusal
from ..engine.engine import Engine
from ..engine.queries import Queries
from ..refused import Refused
from ..tools import Tool

T = TypeVar("T")


class Operations:
    """Asks the engine; a refusal becomes an exception."""

    tools: Mapping[str, Tool]
    limits: Limits

    @property
    def engine(self) -> Engine:
        raise NotImplementedError

    @property
    def queries(self) -> Queries:
        raise NotImplementedError

    async def _ask(self, command: Command, expected: type[T]) -> T:
        return answer(await self.engine.call(command), expected)

    async def _ask_many(self, commands: Sequence[Command], expected: type[T]) -> list[T | Refused]:
        """The answer to each; a refusal stands in its place as an exception that was not raised."""
        return [
            Refused.of(outcome) if isinstance(outcome, Refusal) else answer(outcome, expected)
            for outcome in await self.engine.call_many(commands)
        ]


def answer(outcome: Outcome, expected: type[T]) -> T:
    if isinstance(outcome, Refusal):
        raise Refused.of(outcome)
    assert isinstance(outcome, expected)
    return outcome
