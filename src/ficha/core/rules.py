"""Every rule, by its command. A new command is listed in the file of its noun, and a new file here."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from . import (
    accounts,
    api_keys,
    audit,
    brakes,
    bulk_acts,
    cancel,
    claim,
    configuration,
    dead,
    erasure,
    figures,
    files,
    finish,
    hooks,
    lease,
    library,
    polls,
    pools,
    quota,
    recount,
    recover,
    refunds,
    retention,
    schedules,
    sessions,
    submit,
    turns,
    verification,
    webhooks,
    workers,
)
from .commands import ActingAs, Command
from .outcomes import Outcome
from .rule import Needs, Rule
from .workspace import Workspace


def _decide_audited(ws: Workspace, command: ActingAs) -> Outcome:
    rule = RULES[type(command.command)]
    outcome = rule.decide(ws, command.command)
    audit.record(ws, command.actor, rule, command.command, outcome)
    return outcome


def _needs_of_audited(wanted: Needs, command: ActingAs) -> None:
    RULES[type(command.command)].needs(wanted, command.command)


_MODULES: Final = (
    accounts,
    api_keys,
    brakes,
    bulk_acts,
    cancel,
    claim,
    configuration,
    dead,
    erasure,
    figures,
    files,
    finish,
    hooks,
    lease,
    library,
    polls,
    pools,
    quota,
    recount,
    recover,
    refunds,
    schedules,
    retention,
    sessions,
    submit,
    turns,
    verification,
    webhooks,
    workers,
)

RULES: Final[dict[type[Command], Rule[Any]]] = {
    rule.command: rule
    for rule in chain(
        [Rule(ActingAs, decide=_decide_audited, needs=_needs_of_audited)], *(module.RULES for module in _MODULES)
    )
}
