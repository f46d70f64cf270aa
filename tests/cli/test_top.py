"""`ficha top`: one frame for scripts, a live view in a terminal that is left as it was."""

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ficha import Ficha
from ficha.cli.top import TopReader
from ficha.cli.top_figures import frame, top_figures
from ficha.engine.views import Overview
from tests.cli.running import Run
from tests.cli.terminals import terminal
from tests.support.waiting import until

pytestmark = pytest.mark.long_on("postgresql")

Shop = Callable[[], Ficha]


@pytest.fixture
async def ready(ficha: Run, url: str, shop: Shop) -> Shop:
    ficha("migrate", "up")
    async with shop() as app:
        await app.open_account("ana", plan="free", credits=100)
        await app.open_account("bob", plan="pro", credits=100)
        for account in ("ana", "ana", "ana", "bob"):
            await app.submit("draw", {"prompt": "cat"}, account=account)
        await app.submit("images", {"n": 1}, account="bob")
        await app.claim("gpu", worker="w1", limit=1)
        await app.run_worker(["default"], burst=True, worker="quick")
    return shop


async def test_one_frame_has_pools_plans_throughput_and_alerts(ficha: Run, ready: Shop) -> None:
    told = ficha("top", "--once").out
    assert "last minute:" in told
    assert re.search(r"POOL +SLOTS +BUSY +READY +PARKED", told)
    assert re.search(r"gpu +2 +1 +2 +1", told)
    assert re.search(r"free +2\b", told)
    assert re.search(r"pro +1\b", told)
    assert "no worker is alive" in told
    assert "\x1b" not in told
    assert re.search(r"gpu +2 +1 +2 +1", ficha("top").out), "a pipe gets one frame by itself"
    found = ficha("top", "--json").data
    assert (found["waiting"], found["dead_letters"]) == ({"free": 2, "pro": 1}, 0)
    assert [(pool["name"], pool["busy"]) for pool in found["pools"]] == [("default", 0), ("gpu", 1)]


async def test_a_worker_is_shown_in_the_next_frame_where_there_was_none(ready: Shop) -> None:
    async with ready() as app:
        reader = TopReader(app)
        assert (await reader.figures()).workers == []
        worker = asyncio.create_task(app.run_worker(["default"], worker="late"))

        async def is_known() -> bool:
            return any(one.state == "alive" for one in (await app.workers()).items)

        await until(is_known)
        assert [one.name for one in (await reader.figures()).workers] == ["late"]
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("leaving", ["q", "Ctrl-C"])
async def test_a_terminal_is_left_as_it_was(ready: Shop, folder: Path, url: str, leaving: str) -> None:
    with terminal("top", "--every", "1", cwd=folder) as screen:
        before = screen.settings
        await asyncio.to_thread(screen.wait_for, "POOL")
        assert "\x1b[?1049h" in screen.raw, "it draws on the other screen"
        async with ready() as app:
            await app.pause_pool("gpu")
        await asyncio.to_thread(screen.wait_for, "paused")
        assert screen.settings != before, "single keys are read"
        screen.press_ctrl_c() if leaving == "Ctrl-C" else screen.press("q")
        assert await asyncio.to_thread(screen.end) == 0
        assert screen.raw.rindex("\x1b[?1049l") > screen.raw.rindex("\x1b[?1049h")
        assert screen.raw.rindex("\x1b[?25h") > screen.raw.rindex("\x1b[?25l")
        assert screen.settings == before
        assert "Traceback" not in screen.shown


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_narrow_terminal_without_colours_is_served(ready: Shop, folder: Path, url: str) -> None:
    with terminal("top", "--once", cwd=folder, columns=30, NO_COLOR="1") as screen:
        assert await asyncio.to_thread(screen.end) == 0
    assert max(map(len, screen.shown.split("\r\n"))) <= 30
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", screen.raw), "no colour"
    assert "gpu" in screen.shown


def test_stored_names_cannot_steer_the_terminal() -> None:
    empty: dict[str, Any] = {
        name: [] for name in Overview.__struct_fields__ if name not in ("as_of", "range", "step_s", "workers")
    }
    overview = Overview(
        **empty | {"dead_letters": 0, "dead_letters_more": False, "pools": []},
        as_of=datetime.now(UTC),
        range="1h",
        step_s=60,
        workers=None,  # type: ignore[arg-type]
    )
    out = StringIO()
    Console(file=out, width=80).print(frame(top_figures(overview, []), "it said \x1b[2J[red]no[/red]"))
    assert "\x1b" not in out.getvalue()
    assert "[red]no" in out.getvalue()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--every", "0.5"), "--every"), (("--every", "soon"), "--every"), (("--database", "nonsense"), "is none of")],
)
def test_wrong_calls_are_told(ficha: Run, arguments: tuple[str, ...], words: str) -> None:
    assert words in ficha("top", *arguments, expect=None).err
