"""Facts about the machine that figures depend on. None of them tells which machine it is."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version

from .databases import Kind


async def facts(kinds: list[Kind], loop: str) -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": str(os.cpu_count()),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": f"{platform.python_version()}, {loop} loop",
        **{kind.name: f"{await kind.version()}, fully durable, on {kind.filesystem()}" for kind in kinds},
        "Ficha": version("ficha"),
        "asyncpg": version("asyncpg"),
    }


def is_busy() -> bool:
    """Whether others use the machine: then only ratios mean something, and those not much."""
    return os.getloadavg()[0] > (os.cpu_count() or 1) / 4
