"""The base of every group of operations: the engine, the read side, the tools and the limits."""

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
    """Sends commands to the engine and raises a refusal as an exception."""

    tools: Mapping[str, Tool]
    limits: Limits
    default_plan: str
    cron_entries: Mapping[str, CronEntry] = {}
    """The recurring jobs that the application declares, by name."""
    actor: str | None = None
    """Whom the audit log names for each change; None for the application itself, whose changes are not audited."""
    key_id: str | None = None
    """The caller's API key, which submitted jobs name; None if there is none."""

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
        """The answer from within the caller's own transaction, and the changes, invisible to others before its
        commit."""
        changes, outcome = await self.engine.call_within(connection, self._said(command))
        return answer(outcome, expected), changes

    async def _ask_many(self, commands: Sequence[Command], expected: type[T]) -> list[T | Refused]:
        """The answer to each command; a refusal is returned as an exception, not raised."""
        return [
            outcome if isinstance(outcome, expected) else _refused(outcome)
            for outcome in await self.engine.call_many(self._all_said(commands))
        ]

    def _all_said(self, commands: Sequence[Command]) -> Sequence[Command]:
        return commands if self.actor is None else [self._said(command) for command in commands]

    def _said(self, command: Command) -> Command:
        """The command, in the name of the actor if there is one."""
        return command if self.actor is None else ActingAs(self.actor, command)  # type: ignore[arg-type]


def answer(outcome: Outcome, expected: type[T]) -> T:
    if isinstance(outcome, expected):
        return outcome
    raise _refused(outcome)


def _refused(outcome: Outcome) -> Refused:
    """The exception for an outcome that is not the expected one: it can only be a refusal."""
    assert isinstance(outcome, Refusal)
    return Refused.of(outcome)
