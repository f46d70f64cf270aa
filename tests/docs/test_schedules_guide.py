"""The guide to schedules: its example does what it says, and its table has every option."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha

GUIDE = (Path(__file__).parents[2] / "docs/schedules.md").read_text()


async def test_the_example_declares_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    guide: dict[str, Any] = {"__name__": "guide"}
    exec(example, guide)  # noqa: S102 (the text is the guide's own)
    async with guide["app"] as app:
        await app.open_account("ana", credits=10)
        collect, report = await app.schedules()
        assert (report.cron, report.tz, report.account) == ("0 9 * * 1-5", "America/Sao_Paulo", "ana")
        assert (collect.tz, collect.account, collect.missed) == ("UTC", None, "all")
        for name, cost in (("report", 5), ("collect", 0)):
            made = await app.run_schedule(name)
            assert made.cost == cost
        assert await app.run_worker(burst=True) == 2
        assert (await app.account("ana")).balance == 5


def test_every_option_of_a_schedule_is_in_its_table() -> None:
    for option in inspect.signature(Ficha.cron).parameters:
        assert option in ("self", "expression") or f"| `{option}` |" in GUIDE, option
