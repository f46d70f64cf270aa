"""One process of a race: `python -m tests.races.racer`. It plays the roles that it is told to, until its input ends."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.races.application import application
from tests.races.mixture import meddle, observe
from tests.races.roles import Gate, call, claim_all, occupy

ROLES = {role.__name__: role for role in (call, claim_all, meddle, observe, occupy)}


def main() -> None:
    troubles = Troubles()
    logging.getLogger().addHandler(troubles)
    for line in sys.stdin:
        try:
            result = asyncio.run(_play(json.loads(line)))
        except Exception:
            _say({"trouble": traceback.format_exc()})
        else:
            _say({"trouble": "\n".join(troubles.lines)} if troubles.lines else {"result": result})
        troubles.lines.clear()


class Troubles(logging.Handler):
    """Keeps what is logged as an error: what a background part could not do must not go unseen."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


async def _play(order: dict[str, Any]) -> Any:
    racer = order["racer"]
    role = ROLES[racer.pop("role")]
    gate = _gate(Path(order["gates"]))
    async with asyncio.timeout(order["seconds"]):
        # Opening is a race of its own.
        await gate()
        async with application(order["database"], **order["settings"]) as app:
            return await role(app, gate, **racer)


def _gate(folder: Path) -> Gate:
    passed = 0

    async def gate() -> None:
        nonlocal passed
        _say({"gate": passed})
        # On a thread, because whatever the application does in the background must go on.
        await asyncio.to_thread(_wait_for, folder / str(passed))
        passed += 1

    return gate


def _wait_for(gate: Path) -> None:
    with open(gate) as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
