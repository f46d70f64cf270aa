"""What must be loaded before commands can be decided.

`needs` reads the commands alone. A store loads exactly what it names, in an order that keeps concurrent transactions
apart: accounts first (locked, in key order), then the rest. If `decide` reads anything else, it raises `NotLoaded`.
"""

from __future__ import annotations

from collections.abc import Iterable

from .commands import Command
from .records import KeyName
from .rule import PROMOTIONS_PER_SLOT, Needs
from .rules import RULES

__all__ = ["PROMOTIONS_PER_SLOT", "KeyName", "Needs", "needs"]


def needs(commands: Iterable[Command]) -> Needs:
    """What `decide` will read for these commands."""
    wanted = Needs()
    for command in commands:
        RULES[type(command)].needs(wanted, command)
    if wanted.ready:
        # A command of the same group may take a job out of the queue before the claim reaches it.
        spare = len(wanted.owned_jobs)
        wanted.ready = {pool: limit + spare for pool, limit in wanted.ready.items()}
        # Or it may return a job to the queue, where the claim takes it.
        wanted.payloads |= wanted.owned_jobs
    return wanted
