"""`ficha library`: completed work is listed, searched and removed from a terminal."""

import asyncio
from collections.abc import Callable

import pytest

from ficha import Ficha
from tests.cli.running import Run

pytestmark = pytest.mark.long_on("postgresql")


@pytest.mark.req("D12")
def test_completed_work_is_listed_and_removed(ficha: Run, url: str, shop: Callable[[], Ficha]) -> None:
    async def complete(prompt: str) -> str:
        async with shop() as app:
            receipt = await app.submit("draw", {"prompt": prompt}, account="ana")
            [lease] = await app.claim(app.tools["draw"].pool, worker="w1")
            await app.finish(lease, result="done")
            return receipt.job_id

    ficha("account", "create", "ana", "--credits", "20")
    assert ficha("library", "list", "--account", "ana").err == "ana has no such work\n"
    cat, dog = (asyncio.run(complete(prompt)) for prompt in ("a cat", "a dog"))
    assert [row[:2] for row in ficha("library", "list", "--account", "ana").rows] == [[dog, "draw"], [cat, "draw"]]
    found = ficha("library", "list", "--account", "ana", "--search", "CAT", "--include", "payload", "--json").items
    assert [item["job"]["payload"] for item in found] == [{"prompt": "a cat"}]
    assert ficha("library", "list", "--account", "ana", "--until", "2020-01-31").rows == []
    assert len(ficha("library", "list", "--account", "ana", "--since", "2020-01-31T10:00:00").rows) == 2
    assert "Missing option '--account'" in ficha("library", "list", expect=2).err
    assert ficha("library", "remove", cat).err == f"the work of job {cat} is removed\n"
    assert ficha("library", "remove", cat).err == f"the work of job {cat} was removed before\n"
    assert [row[0] for row in ficha("library", "list", "--account", "ana").rows] == [dog]
    assert ficha("audit", "--json").items[0]["act"] == "remove_work"
    assert ficha("verify", "--json").data["ok"]
