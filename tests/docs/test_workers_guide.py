"""The guide to workers: its examples are one program, and do what it says."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = (Path(__file__).parents[2] / "docs/workers.md").read_text()


def test_the_examples_of_the_guide_to_workers_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide: dict[str, Any] = {"__name__": "guide"}
    exec("\n".join(re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)), guide)  # noqa: S102 (our own page)
    app = guide["app"]

    async def use() -> str:
        async with app:
            await app.open_account("ana", credits=100)
            submits = {
                "upscale": {"image": "cat"},
                "thumbnails": {"images": ["a", "b", "c"]},
                "poll": {"address": ""},
                "embed": {"text": "hello"},
            }
            receipts = {tool: await app.submit(tool, fields, account="ana") for tool, fields in submits.items()}
            asked_again = await app.submit("poll", {"address": "there"}, account="ana")
            await guide["order"]()
            assert await app.run_worker(burst=True) == 6
            jobs = {tool: await app.job(receipt.job_id) for tool, receipt in receipts.items()}
            assert jobs["upscale"].result == {"image": "pixels of cat x2"}
            assert (jobs["thumbnails"].result, jobs["thumbnails"].charged) == (["small a", "small b", "small c"], 6)
            assert (jobs["poll"].status, jobs["poll"].error) == ("failed", "there is no address to ask")
            assert jobs["embed"].result == {"length": 5}
            assert (await app.job(asked_again.job_id)).waiting_for == "schedule"
            return (await app.submit("upscale", {"image": "dog"}, account="ana")).job_id

    async def look(job_id: str) -> Any:
        async with app:
            return await app.job(job_id)

    job_id = asyncio.run(use())
    guide["process"](job_id)
    assert asyncio.run(look(job_id)).result == {"price": 4}
