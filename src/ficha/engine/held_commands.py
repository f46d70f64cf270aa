"""Commands that wait for the caller's commit: in tests, they stand in for a transaction of the caller's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..core.commands import Command
from ..core.decide import decide
from ..core.needs import needs
from ..core.outcomes import Outcome, Refusal
from ..core.snapshot import Changes
from ..store.base import GetSnapshot

if TYPE_CHECKING:
    from .engine import Engine


class HeldCommands:
    """Holds commands until they are committed, all in one transaction of the store, or dropped.

    Each command is decided when it arrives, after those before it, and its caller gets that outcome. All are decided
    again at the commit. Nothing is locked meanwhile: if another commit makes one of them impossible, none is kept.
    """

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._commands: list[Command] = []

    async def hold(self, engine: Engine, command: Command) -> tuple[Changes, Outcome]:
        """Holds the command; returns its changes and outcome after those already held. A refused one is not held."""
        self._engine, self._loop = engine, asyncio.get_running_loop()
        commands = [*self._commands, command]
        snapshot = await engine.store.read(GetSnapshot(needs(commands)))
        changes, outcomes = decide(snapshot, commands, engine.policy)
        if not isinstance(outcomes[-1], Refusal):
            self._commands = commands
        return changes, outcomes[-1]

    async def commit_held(self) -> None:
        """Commits all held commands."""
        commands, self._commands = self._commands, []
        if self._engine is not None and commands:
            await self._engine.call_together(commands)

    def drop_held(self) -> None:
        """Drops all held commands."""
        self._commands = []
