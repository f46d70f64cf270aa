"""The calls that wait for a committer. Accounts take turns, so one account's many calls do not keep another's few from
the next commit group."""

from __future__ import annotations

import asyncio
from operator import attrgetter

from msgspec import Struct

from ..core.commands import Command
from ..core.outcomes import Outcome


class Ticket(Struct):
    """Commands of one caller that are decided together, and the future that gets their outcomes.

    account_id: the account that all of them name; None if they name none, or several.
    number: the order of arrival.
    """

    commands: tuple[Command, ...]
    account_id: str | None
    weight: int
    asked_at: float
    future: asyncio.Future[list[Outcome]]
    number: int = 0


class _Line(Struct):
    """The tickets of one account, in order of arrival, and their weight."""

    tickets: list[Ticket]
    weight: int = 0


class FairQueue:
    """Tickets by account; those without an account share one turn, like an account."""

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
            line = self._lines[ticket.account_id] = _Line([])
        line.tickets.append(ticket)
        line.weight += ticket.weight
        self.weight += ticket.weight

    def take(self, most: int, *, without_heavy: bool = False) -> list[Ticket]:
        """Takes the next tickets, of total weight `most` at most, in order of arrival. Tickets whose caller stopped
        waiting are left out.

        Where not all fit, each account gets an equal share, and what some leave over goes to the others by turns. The
        first account in turn always gets its first ticket in, however heavy; an account that got nothing keeps its
        turn.
        With `without_heavy`, a ticket heavier than `most` waits, and the later tickets of its account with it.
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
                passed = 0
                for ticket in line.tickets:
                    if ticket.weight > left and (taken or (without_heavy and ticket.weight > most)):
                        break
                    passed += 1
                    line.weight -= ticket.weight
                    if not ticket.future.done():
                        taken.append(ticket)
                        left -= ticket.weight
                        room -= ticket.weight
                del line.tickets[:passed]
                if passed:
                    self.weight -= before - line.weight
                    del self._lines[account_id]
                    if line.tickets:
                        self._lines[account_id] = line
        taken.sort(key=_NUMBER)
        return taken

    def clear(self) -> list[Ticket]:
        """Removes and returns all tickets."""
        return self.take(self.weight)


_NUMBER = attrgetter("number")
