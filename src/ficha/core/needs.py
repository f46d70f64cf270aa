"""What must be loaded before commands can be decided.

`needs` looks at the commands alone. A store loads exactly what it names, in the order that keeps concurrent
transactions apart: accounts first (locked, in key order), then the rest. `decide` fails loudly if it looks at anything
else.
"""

from __future__ import annotations

from collections.abc import Iterable

from .commands import Command
from .records import KeyName
from .rule import PROMOTIONS_PER_SLOT, Needs
from .rules import RULES

__all__ = ["PROMOTIONS_PER_SLOT", "KeyName", "Needs", "needs"]


def needs(commands: Iterable[Command]) -> Needs:
    """What `decide` will look at for these commands."""
    wanted = Needs()
    for command in commands:
        RULES[type(command)].needs(wanted, command)
    if wanted.ready:
        # A job named by one command may leave the queue before a claim beside it reaches it.
        spare = len(wanted.owned_jobs)
        wanted.ready = {pool: limit + spare for pool, limit in wanted.ready.items()}
        # Or it may come back to the queue, and be claimed.
        wanted.payloads |= wanted.owned_jobs
    return wanted
