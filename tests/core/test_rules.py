"""One rule per command: each is known to the core once, in one record."""

from typing import get_args

from ficha.core.commands import AnyCommand
from ficha.core.rules import RULES


def test_every_command_has_its_rule() -> None:
    assert set(RULES) == set(get_args(AnyCommand))
    assert all(rule.command is command for command, rule in RULES.items())
