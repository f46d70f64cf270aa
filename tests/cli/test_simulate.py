"""`ficha simulate`: recorded and made-up traffic, changes from files and options, tables, JSON and pictures."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ficha import Ficha
from tests.cli.running import Run

TRAFFIC = """
days = 1
jobs_per_day = 300
[plans.free]
share = 1
accounts = 10
[plans.pro]
share = 1
accounts = 5
[tools.draw]
share = 1
median_s = 550
"""


@pytest.fixture
def made(folder: Path, shop: Callable[[], Ficha]) -> Path:
    """The application, a description of traffic, and a change."""
    (folder / "day.toml").write_text(TRAFFIC)
    (folder / "pro.toml").write_text('name = "pro first"\n[plans.pro]\npriority = 1\n[pools.gpu]\nslots = 3\n')
    return folder


def test_scenarios_are_compared_with_today(ficha: Run, made: Path) -> None:
    told = ficha("simulate", "--synthetic", "day.toml", "pro.toml", "--set", "tools.draw.cost=7", "--plot", "day.svg")
    assert "300 submits of 15 accounts in 1.0 days" in told.err
    assert "nobody runs out of them" in told.err
    assert {tuple(row[:4]) for row in told.rows if row[0] == "wait"} == {
        ("wait", plan, tool, scenario)
        for plan, tool in (("free", "draw"), ("pro", "draw"), ("all", "all"))
        for scenario in ("today", "pro first", "change")
    }
    pools = {row[2]: row[3] for row in told.rows if row[:2] == ["pool", "gpu"]}
    assert pools == {"today": "2", "pro first": "3", "change": "2"}
    [*credits] = [row[1:] for row in told.rows if row[0] == "credits"]
    assert [row[0] for row in credits] == ["today", "pro first", "change"]
    assert int(credits[0][1]) % 5 == int(credits[2][1]) % 7 == 0
    picture = ElementTree.parse(made / "day.svg").getroot()  # noqa: S314 (our own picture)
    words = " ".join(text.text or "" for text in picture.iter("{http://www.w3.org/2000/svg}text"))
    assert "plan pro: wait that 95 % did not exceed" in words
    assert "pool gpu: slots held" in words
    assert "pro first" in words


def test_figures_for_a_program_do_not_differ_between_runs(ficha: Run, made: Path) -> None:
    (made / "facts.toml").write_text("credit_price = 0.5\n[plans.free]\ncredits = 50\n")
    arguments = ("simulate", "--synthetic", "day.toml", "--today", "facts.toml", "pro.toml", "--json")
    first, second = ficha(*arguments).items
    assert (first["scenario"], second["scenario"]) == ("today", "pro first")
    assert first["refusals"]["INSUFFICIENT_CREDITS"] > 0
    assert first["revenue"] == first["kept"] / 2
    assert second["waits"][-1]["wait_p95_s"] < first["waits"][-1]["wait_p95_s"]
    assert ficha(*arguments).items == [first, second]
    assert ficha(*arguments, "--seed", "2").items[0] != first


def test_a_database_is_replayed_and_saved_without_names(
    ficha: Run, url: str, shop: Callable[[], Ficha], folder: Path
) -> None:
    async def work() -> None:
        async with shop() as app:
            await app.open_account("ana@example.com", credits=100)
            for number in range(3):
                await app.submit("draw", {"prompt": "x"}, account="ana@example.com")
                [lease] = await app.claim("gpu", worker="w1")
                await (app.finish(lease, {}) if number else app.fail(lease, "no"))

    asyncio.run(work())
    [found] = ficha("simulate", "--recorded", url, "--save", "week.jsonl", "--json").items
    assert (found["jobs"], found["charged"], found["refunded"]) == (3, 15, 5)
    assert "ana" not in (folder / "week.jsonl").read_text()
    assert ficha("simulate", "--recorded", "week.jsonl", "--json").items == [found]
    exported = ficha("jobs", "--json").out
    (folder / "jobs.jsonl").write_text(exported)
    assert ficha("simulate", "--recorded", "jobs.jsonl", "--days", "1", "--json").items == [found]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "either --recorded URL|FILE or --synthetic FILE.toml"),
        (["--synthetic", "day.toml", "--recorded", "x"], "either --recorded URL|FILE or --synthetic"),
        (["--synthetic", "day.toml", "--save", "x"], "--days and --save are for --recorded traffic"),
        (["--synthetic", "none.toml"], "none.toml cannot be read"),
        (["--synthetic", "day.toml", "none.toml"], "none.toml cannot be read"),
        (["--synthetic", "day.toml", "--set", "pools.cpu.slots=1"], "there is no pool 'cpu'"),
        (["--synthetic", "day.toml", "pro.toml", "pro.toml"], "two scenarios have the name 'pro first'"),
        (["--synthetic", "day.toml", "--plot", "day.pdf"], "must end in .svg or .html"),
        (["--synthetic", "day.toml", "--plot", "none/day.svg"], "cannot be written: No such file"),
        (["--recorded", "none.jsonl"], "none.jsonl cannot be read"),
    ],
)
def test_a_mistake_is_told_in_a_line(ficha: Run, made: Path, arguments: list[str], says: str) -> None:
    told = ficha("simulate", *arguments, expect=2)
    assert says in " ".join(told.err.split())
    assert told.out == ""
