"""The process that does nothing, and says how much memory that takes. It imports only what it measures."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path


def resident_mb(pid: int | str = "self") -> float:
    """How much of the machine's memory a process holds."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


async def main(url: str, idle_s: float) -> dict[str, float]:
    """Bare, with the library, and with an application that is open and has nothing to do."""
    found = {"bare": resident_mb()}
    import ficha

    found["imported"] = resident_mb()
    async with ficha.Ficha(url, pools=[ficha.Pool("gpu", slots=3)]):
        await asyncio.sleep(idle_s)
        found["open"] = resident_mb()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], float(sys.argv[2])))))
