"""`ficha providers` and `ficha margins`."""

from collections.abc import Callable

from ficha import Ficha
from tests.app.test_turns import Limited, fail
from tests.cli.running import Run
from tests.support.shop import claim_one


async def test_providers_are_listed_opened_and_reset(ficha: Run, shop: Callable[[], Ficha]) -> None:
    ficha("migrate", "up")
    assert ficha("providers", "list").err == "no providers yet\n"
    async with shop() as app:
        for _ in range(2):
            await fail(app, Limited(), "502")
    [row] = ficha("providers", "list").rows
    assert (row[:4], row[6:]) == (["fal", "open", "0", "1"], ["0", "0.0 s", "502"])
    assert ficha("providers", "reset", "fal").err == "the circuit breaker of provider fal is closed\n"
    opened = ficha("providers", "open", "fal", "--seconds", "60", "--reason", "maintenance", "--json").items
    assert [(one["breaker"], one["error"]) for one in opened] == [("open", "maintenance")]
    assert "NOT_FOUND" in ficha("providers", "reset", "none", expect=1).err
    assert [line["act"] for line in ficha("audit", "--json").items] == ["open_breaker", "close_breaker", "open_breaker"]


async def test_margins_are_shown_by_day_tool_and_plan(ficha: Run, shop: Callable[[], Ficha]) -> None:
    ficha("migrate", "up")
    assert ficha("margins").err == "no job of these days has a provider's cost\n"
    async with shop() as app:
        await app.open_account("ana", credits=100)
        await app.submit("draw", {"prompt": "cat"}, account="ana")
        await app.finish(await claim_one(app), provider_cost=0.02)
    [row] = ficha("margins").rows
    assert row[1:] == ["draw", "free", "1", "5", "0.020000"]
    [line] = ficha("margins", "--since", row[0], "--until", row[0], "--json").items
    assert (line["day"], line["credits"], line["provider_cost"]) == (row[0], 5, 0.02)
    assert ficha("margins", "--since", "yesterday", expect=2).err
