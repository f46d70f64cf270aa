"""What concerns the application itself: the tools it sells, and running all of it in one process."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from ficha import Ficha
from tests.cli.conftest import FICHA
from tests.cli.running import Run


def test_tools_are_listed_with_their_prices_and_schemas(ficha: Run, shop: Callable[[], Ficha]) -> None:
    assert ficha("tools").rows == [
        ["broken", "default", "3", ""],
        ["draw", "gpu", "5", "prompt, size"],
        ["images", "default", "2", "n"],
    ]
    described = {tool["name"]: tool for tool in ficha("tools", "--json").items}
    assert described["draw"]["schema"]["required"] == ["prompt"]
    assert (described["draw"]["cost"], described["images"]["attempts"]) == (5, 1)


def test_dev_makes_accounts_of_each_plan_runs_jobs_and_ends_with_ctrl_c(
    ficha: Run, shop: Callable[[], Ficha], folder: Path
) -> None:
    dev = subprocess.Popen(
        [FICHA, "dev", "--database", "sqlite:///ficha.db"],
        cwd=folder,
        env=os.environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert dev.stderr is not None
        said: list[str] = []
        while "worker started" not in "".join(said[-1:]):
            said.append(dev.stderr.readline())
            assert said[-1], "".join(said)
        assert "account demo-free: 1000 credits, plan free\n" in said
        assert "tool    draw(prompt, size)\n" in said
        job = ficha("submit", "images", "--account", "demo-pro", "--field", "n=2", "--watch", "--json").items[-1]
        assert job["result"] == [0, 0]
        dev.send_signal(signal.SIGINT)
        assert dev.wait(20) == 0
    finally:
        dev.kill()
        dev.communicate()
    assert {account["id"] for account in ficha("account", "list", "--json").items} == {"demo-free", "demo-pro"}
