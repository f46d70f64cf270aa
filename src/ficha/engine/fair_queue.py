"""The calls that wait for a committer, in turns of their accounts: one account's many calls do not keep another's few
from the next commit group."""

from __future__ import annotations

import asyncio
from collections import deque
from operator import attrgetter

from msgspec import Struct

from ..core.commands import Command
from ..core.outcomes import Outcome


class Ticket(Struct):
    """Commands of one caller that are decided together, and where the outcomes go.

    account_id: the one account that they are about; None if they name none, or several.
    number: in which order tickets came.
    """

    commands: tuple[Command, ...]
    account_id: str | None
    weight: int
    asked_at: float
    future: asyncio.Future[list[Outcome]]
    number: int = 0


class _Line(Struct):
    """The tickets of one account, in the order they came, and their weight."""

    tickets: deque[Ticket]
    weight: int = 0


class FairQueue:
    """Tickets by account; those of no account are together, and have their turn like any account's."""

    def __init__(self) -> None:
        self.weight = 0
        self._numbers = 0
        self._lines: dict[str | None, _Line] = {}
        """In the order of their turns."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def weight_of(self, account_id: str | None) -> int:
        line = self._lines.get(account_id)
        return 0 if line is None else line.weight

    def has_others(self, ticket: Ticket) -> bool:
        """Whether tickets of other accounts wait."""
        return self.weight > self.weight_of(ticket.account_id)

    def append(self, ticket: Ticket) -> None:
        self._numbers += 1
        ticket.number = self._numbers
        line = self._lines.get(ticket.account_id)
        if line is None:
            line = self._lines[ticket.account_id] = _Line(deque())
        line.tickets.append(ticket)
        line.weight += ticket.weight
        self.weight += ticket.weight

    def take(self, most: int, *, without_heavy: bool = False) -> list[Ticket]:
        """The next tickets, at most so heavy together, in the order they came. Whoever stopped waiting is left out.

        Where not all fit, each account gets an equal share, and what some leave over goes to the others by turns. The
        first in turn always gets its first ticket in, however heavy that is; who got nothing keeps their turn.
        `without_heavy`: but for a ticket that is heavier than all that may be taken; it waits, and its account's with
        it.
        """
        if self.weight <= most:
            tickets = [ticket for line in self._lines.values() for ticket in line.tickets]
            if len(self._lines) > 1:
                tickets.sort(key=_NUMBER)
            self._lines.clear()
            self.weight = 0
            return [ticket for ticket in tickets if not ticket.future.done()]
        taken: list[Ticket] = []
        room = most
        for allowance in (max(1, most // len(self._lines)), most):
            for account_id, line in list(self._lines.items()):
                before, left = line.weight, min(allowance, room)
                while line.tickets:
                    weight = line.tickets[0].weight
                    if weight > left and (taken or (without_heavy and weight > most)):
                        break
                    ticket = line.tickets.popleft()
                    line.weight -= ticket.weight
                    if not ticket.future.done():
                        taken.append(ticket)
                        left -= ticket.weight
                        room -= ticket.weight
                if line.weight < before:
                    self.weight -= before - line.weight
                    del self._lines[account_id]
                    if line.tickets:
                        self._lines[account_id] = line
        taken.sort(key=_NUMBER)
        return taken

    def clear(self) -> list[Ticket]:
        """All of them, and none waits any more."""
        return self.take(self.weight)


_NUMBER = attrgetter("number")
