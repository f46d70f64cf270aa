"""`ficha doctor`: what people and scripts get."""

from collections.abc import Callable

import pytest

from ficha import Ficha
from tests.cli.running import Run
from tests.cli.test_schema import execute

SECRET = "qPzR7mWk2vXb9nLs4tYc8hJd3gFa6eUi"  # noqa: S105 (of tests alone)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FICHA_SECRET", SECRET)


async def test_a_script_gets_codes_and_a_person_what_to_do(ficha: Run, url: str, shop: Callable[[], Ficha]) -> None:
    ficha("migrate", "up")
    async with shop() as app:
        await app.open_account("ana", credits=100)
        for _ in range(3):
            await app.submit("draw", {"prompt": "cat"}, account="ana")
        await app.claim("gpu", worker="w1", limit=10)
        await app.sweep()
    well = ficha("doctor", "--json").data
    assert (well["findings"], well["exit"], well["repaired"]) == ([], 0, {})
    assert "password" not in well["database"]
    assert ficha("doctor").err.endswith("all is well\n")

    await execute(url, "update accounts set active = active + 2")
    broken = ficha("doctor", expect=2)
    assert "critical: The counters of account ana disagree" in broken.err
    assert "Run `ficha doctor --repair`" in broken.err
    found = ficha("doctor", "--json", expect=2).data
    assert [(one["code"], one["severity"]) for one in found["findings"]] == [("COUNTERS_WRONG", "critical")]

    repaired = ficha("doctor", "--repair")
    assert "repaired: account ana: active -2" in repaired.err
    assert ficha("doctor", "--json", "--repair").data["repaired"] == {}
    [line] = [line for line in ficha("audit", "--json").items if line["details"].get("active") == -2]
    assert (line["act"], line["target"], line["actor"].startswith("cli ")) == ("recount", "account ana", True)
    assert ficha("verify", "--json").data["ok"] is True


def test_warnings_and_what_could_not_be_checked_have_codes_of_their_own(
    ficha: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ficha("migrate", "up")
    monkeypatch.delenv("FICHA_SECRET")
    assert "warning: FICHA_SECRET is not set" in ficha("doctor", expect=1).err
    assert "critical: " in ficha("doctor", "--database", "sqlite:///none.db", expect=2).err
    assert "exists only in its process" in ficha("doctor", "--database", "memory:", expect=3).err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--limit", "nonsense=1"), 2, "there is no limit 'nonsense'; there are: clock_s, transaction_s"),
        (("--limit", "clock_s=soon"), 2, "a limit is NAME=NUMBER"),
        (("--limit", "clock_s"), 2, "a limit is NAME=NUMBER"),
        (("--database", "https://shop.example"), 3, "needs the database; name it with --database; over HTTP"),
    ],
)
def test_wrong_calls_are_told(ficha: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    refused = ficha("doctor", *arguments, expect=code)
    assert words in " ".join(refused.err.split())
