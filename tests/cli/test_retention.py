"""`ficha prune` and `ficha account erase`: what leaves is counted, written down and removed from a terminal."""

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ficha import Ficha
from tests.cli.running import Run

AGED = """
from msgspec.structs import replace
from ficha import Retention

app.policy = replace(app.policy, retention=Retention(jobs=1e-9, by_itself=False))
"""


def test_what_is_old_is_counted_written_down_and_removed(
    ficha: Run, url: str, shop: Callable[[], Ficha], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def complete(prompt: str) -> str:
        async with shop() as app:
            receipt = await app.submit("draw", {"prompt": prompt}, account="ana")
            [lease] = await app.claim("gpu", worker="w1")
            await app.finish(lease, result="done")
            return receipt.job_id

    ficha("account", "create", "ana", "--credits", "20")
    job_id = asyncio.run(complete("a cat"))
    unset = ficha("prune", "--dry-run").err
    assert unset.startswith("note: the application sets no ages, so no job ever leaves; ")
    assert unset.endswith("\n0 jobs, results and payloads would leave; nothing was changed\n")
    # What ended is due at once. (The ages of an application are an hour or more, and a walk comes a day later.)
    monkeypatch.setattr("ficha.operations.retention.LAG", 0)
    with (folder / "app.py").open("a") as source:
        source.write(AGED)
    shop()
    counted = ficha("prune", "--dry-run")
    assert counted.rows == [["jobs", "draw", "free", "1"]]
    assert "no ages" not in counted.err
    assert ficha("job", job_id, "--json").data["id"] == job_id
    for wrong in ("app.py", "app.py/gone"):
        told = ficha("prune", "--export", wrong, expect=2).err
        assert f"cannot be written to the folder {wrong} (" in told
        assert "so no more was removed; name a folder" in told
    assert ficha("job", job_id, "--json").data["id"] == job_id
    report = ficha("prune", "--export", "gone", "--json").data
    assert report["jobs"] == [{"what": "job", "tool": "draw", "plan": "free", "count": 1}]
    with gzip.open(report["exported"]) as lines:
        assert [json.loads(line)["job"]["payload"] for line in lines] == [{"prompt": "a cat"}]
    assert ficha("job", job_id, "--json", expect=1).error["code"] == "NOT_FOUND"
    assert ficha("verify", "--json").data["ok"]


def test_an_account_is_erased_after_a_question(ficha: Run, process: Run, url: str, shop: Callable[[], Ficha]) -> None:
    ficha("account", "create", "ana", "--credits", "20")
    ficha("submit", "draw", '{"prompt": "a cat"}', "--account", "ana")
    for answer in "n\n", "":
        asked = process("account", "erase", "ana", expect=1, given=answer).err
        assert "Go on?" in asked
        assert "nothing was changed; with --yes it does not ask [INVALID_STATE]" in asked
    assert ficha("account", "show", "ana", "--json").data["plan"] == "free"
    erased = ficha("account", "erase", "ana", "--yes", "--json").data
    assert (erased["cancelled"], erased["jobs"], erased["balance"]) == (1, 1, 20)
    refused = ficha("submit", "draw", '{"prompt": "x"}', "--account", "ana", "--json", expect=1)
    assert refused.error["code"] == "ACCOUNT_CLOSED"
    assert ficha("audit", "--json").items[0]["act"] == "erase_account"
    assert ficha("verify", "--json").data["ok"]
