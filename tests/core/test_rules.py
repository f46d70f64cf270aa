"""One rule per command: each is known to the core once, in one record."""

from typing import get_args

import pytest

from ficha.core.codes import CODES, Code, HttpCode
from ficha.core.commands import ActingAs, AnyCommand, Command
from ficha.core.rules import RULES
from tests.support.refusal_codes import codes_of


def test_every_command_has_its_rule() -> None:
    assert set(RULES) == set(get_args(AnyCommand))
    assert all(rule.command is command for command, rule in RULES.items())


@pytest.mark.parametrize("command", sorted(set(RULES) - {ActingAs}, key=lambda kind: kind.__name__))
def test_a_rule_says_exactly_the_codes_that_it_can_refuse_with(command: type[Command]) -> None:
    rule = RULES[command]
    place = rule.decide.__module__.removeprefix("ficha.")
    assert set(rule.refuses) == codes_of(place, rule.decide.__name__)
    assert list(rule.refuses) == sorted(set(rule.refuses))


def test_the_table_has_every_code_once() -> None:
    assert set(CODES) == {*get_args(Code), *get_args(HttpCode)}
