"""Commands that wait for a commit of the caller's: what stands for a transaction of the caller's own in tests."""

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

    Each is decided when it comes, after those before it, and that is what its caller is told. All are decided again at
    the commit. Nothing is locked meanwhile: if somebody else's commit makes one of them impossible, nothing is kept.
    """

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._commands: list[Command] = []

    async def hold(self, engine: Engine, command: Command) -> tuple[Changes, Outcome]:
        """What the command, after those that are held already, would change and lead to. A refused one is not held."""
        self._engine, self._loop = engine, asyncio.get_running_loop()
        commands = [*self._commands, command]
        snapshot = await engine.store.read(GetSnapshot(needs(commands)))
        changes, outcomes = decide(snapshot, commands, engine.policy)
        if not isinstance(outcomes[-1], Refusal):
            self._commands = commands
        return changes, outcomes[-1]

    async def commit_held(self) -> None:
        """Keeps all of them."""
        commands, self._commands = self._commands, []
        if self._engine is not None and commands:
            await self._engine.call_together(commands)

    def drop_held(self) -> None:
        """Forgets all of them."""
        self._commands = []
