"""What every group of operations stands on: the engine, the read side, the tools and the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ..core.commands import ActingAs, Command
from ..core.outcomes import Outcome, Refusal
from ..core.snapshot import Changes
from ..cron_entries import CronEntry
from ..engine.engine import Engine
from ..engine.queries import Queries
from ..errors import Refused
from ..outbound import Outbound
from ..tools import Tool
from ..validation import Limits

T = TypeVar("T")


class Operations:
    """Asks the engine; a refusal becomes an exception."""

    tools: Mapping[str, Tool]
    limits: Limits
    default_plan: str
    cron_entries: Mapping[str, CronEntry] = {}
    """The recurring jobs that the application declares, by name."""
    actor: str | None = None
    """In whose name changes are made; None for the application's own, which are not audited."""

    @property
    def engine(self) -> Engine:
        raise NotImplementedError

    @property
    def queries(self) -> Queries:
        raise NotImplementedError

    @property
    def outbound(self) -> Outbound:
        """The client of all outgoing calls."""
        raise NotImplementedError

    async def _ask(self, command: Command, expected: type[T], connection: Any = None) -> T:
        if connection is not None:
            return (await self._ask_within(connection, command, expected))[0]
        return answer(await self.engine.call(self._said(command)), expected)

    async def _ask_within(self, connection: Any, command: Command, expected: type[T]) -> tuple[T, Changes]:
        """The answer inside the caller's own transaction, and the changes, which nobody else sees before its commit."""
        changes, outcome = await self.engine.call_within(connection, self._said(command))
        return answer(outcome, expected), changes

    async def _ask_many(self, commands: Sequence[Command], expected: type[T]) -> list[T | Refused]:
        """The answer to each; a refusal stands in its place as an exception that was not raised."""
        return [
            outcome if isinstance(outcome, expected) else _refused(outcome)
            for outcome in await self.engine.call_many(self._all_said(commands))
        ]

    def _all_said(self, commands: Sequence[Command]) -> Sequence[Command]:
        return commands if self.actor is None else [self._said(command) for command in commands]

    def _said(self, command: Command) -> Command:
        """The command, in the name of whoever acts."""
        return command if self.actor is None else ActingAs(self.actor, command)  # type: ignore[arg-type]


def answer(outcome: Outcome, expected: type[T]) -> T:
    if isinstance(outcome, expected):
        return outcome
    raise _refused(outcome)


def _refused(outcome: Outcome) -> Refused:
    """Whatever is not what was expected."""
    assert isinstance(outcome, Refusal)
    return Refused.of(outcome)
