"""The only entry to the rules: takes a snapshot and commands, returns changes and outcomes."""

from __future__ import annotations

from collections.abc import Iterable

from .commands import Command
from .figures import figures_of
from .outcomes import Outcome
from .policy import Policy
from .rules import RULES
from .snapshot import Changes, Snapshot
from .workspace import Workspace


def decide(snapshot: Snapshot, commands: Iterable[Command], policy: Policy) -> tuple[Changes, list[Outcome]]:
    """Decides the commands in order; each sees the changes of those before it. A refused command changes nothing."""
    workspace = Workspace(snapshot, policy)
    outcomes = [RULES[type(command)].decide(workspace, command) for command in commands]
    changes = workspace.changes()
    changes.figures = figures_of(changes, workspace.calls)
    return changes, outcomes
