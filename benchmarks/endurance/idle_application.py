"""An application with one tool, as small as they come, for a worker that has nothing to do.

Asked to by its environment, it also counts what is asked of SQLite, which nobody else can see: a byte in a file for
each statement.
"""

from __future__ import annotations

import os
from typing import Any, Final

import apsw

from ficha import Ficha, Pool

COUNT_IN: Final = "STATEMENTS_FILE"

app = Ficha(pools=[Pool("gpu", slots=3)])


@app.tool(pool="gpu", cost=5)
async def upscale(job: Any, image: str, scale: int = 2) -> dict[str, Any]:
    return {"image": image, "scale": scale}


def _count_statements(path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def count(_: dict[str, Any]) -> None:
        os.write(file, b".")

    apsw.connection_hooks.append(lambda connection: connection.trace_v2(apsw.SQLITE_TRACE_STMT, count))


if path := os.environ.get(COUNT_IN):
    _count_statements(path)
