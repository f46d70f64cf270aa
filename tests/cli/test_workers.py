"""`ficha workers`: the figures of workers for people, pipes and programs."""

from collections.abc import Callable

import pytest

from ficha import Ficha
from tests.cli.running import Run


@pytest.mark.req("B8")
async def test_workers_are_listed_with_their_figures(ficha: Run, shop: Callable[[], Ficha]) -> None:
    ficha("migrate", "up")
    assert (ficha("workers").out, ficha("workers").err) == ("", "no workers yet\n")
    async with shop() as app:
        await app.open_account("ana", credits=100)
        for n in (1, 2):
            await app.submit("images", {"n": n}, account="ana")
        await app.submit("broken", {}, account="ana")
        await app.run_worker(burst=True, worker="w1")
        await app.submit("draw", {"prompt": "cat"}, account="ana")
        await app.claim("gpu", worker="by hand")
    by_hand, w1 = ficha("workers").rows
    assert by_hand == ["by hand", "", "", "1", "0", "1", "0", "0", "0", "0", "", ""]
    assert (w1[:2], w1[3:10]) == (["w1", "stopped"], ["0", "0", "3", "2", "1", "0", "0"])
    assert w1[10].endswith(" s")
    listed = ficha("workers", "--json", "--limit", "1").items
    assert [(worker["name"], worker["state"], worker["running"]) for worker in listed] == [("by hand", None, 1)]
    [second] = ficha("workers", "--json", "--after", "by hand").items
    assert (second["name"], second["pools"], second["concurrency"]) == ("w1", ["default", "gpu"], 10)
    assert (second["claimed"], second["completed"], second["failed"]) == (3, 2, 1)


def test_an_address_for_spans_that_makes_no_sense_is_named(
    process: Run, shop: Callable[[], Ficha], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop()
    monkeypatch.setenv("FICHA_OTLP_ENDPOINT", "nonsense")
    assert process("worker", "--burst", expect=1).err.endswith(
        "error: FICHA_OTLP_ENDPOINT must be an http URL such as http://localhost:4318, not 'nonsense' [SETTINGS]\n"
    )
