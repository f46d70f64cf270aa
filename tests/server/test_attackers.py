"""The cheapest attackers of `make attack`, each for a moment, so that they stay alive and what they check holds."""

import pytest

from tests.attack.attack import Attack
from tests.attack.attackers import ATTACKERS
from tests.attack.site import Site
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

MOMENT_S = 0.3


@pytest.mark.parametrize("name", ["foreign ids in all spellings", "surrogates", "second Host and Authorization"])
async def test_an_attacker_gets_nothing(server: Served, name: str) -> None:
    attack = Attack(Site(server), MOMENT_S)
    await ATTACKERS[name](attack)
    assert attack.wrong == []
    assert attack.got.total() > 0
