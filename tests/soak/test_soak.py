"""The soak itself, for less than a minute: everything happens in it once, and nothing goes wrong."""

import pytest

from tests.soak.__main__ import DATABASES, report, soak


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("database", DATABASES)
async def test_a_short_soak_goes_through_everything(database: str) -> None:
    outcome = await soak(database, 0.7)
    # What is flat is judged over minutes: until then processes and tables only warm up.
    assert [words for words in outcome.wrong if " grew by " not in words] == []
    assert outcome.jobs > 100
    assert min(outcome.over_http, outcome.pruned, outcome.killed, outcome.struck, outcome.restarted) > 0
    assert len(outcome.figures) == (4 if database == "sqlite" else 3)
    assert outcome.database in report(outcome)
