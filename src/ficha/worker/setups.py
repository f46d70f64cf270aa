"""Tools that are not set up on this worker yet, or failed to be, and when their setup is tried again.

Meanwhile the worker claims nothing from their pools, so that their jobs are left to workers that can run them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ..backoff import bound_s
from ..redaction import redacted
from ..tools import Tool
from .failure import SetupFailed

log = logging.getLogger("ficha.worker")

FIRST_S = 1.0
"""The first pause, which doubles with each failure up to `MOST_S`."""
MOST_S: Final = 60.0


class SetupState(Struct, frozen=True, eq=False):
    """A tool that is not set up: how often its setup was tried, its last failure, and until when its jobs are left to
    others (infinity while it is being set up before its first job)."""

    tool: Tool
    tries: int
    failed: SetupFailed | None
    until: float


class Setups:
    """Which of a worker's tools are not set up."""

    def __init__(self) -> None:
        self._states: dict[str, SetupState] = {}

    @property
    def problem(self) -> str | None:
        """The failed setups, for people who look at this worker; None if there are none."""
        failed = {name: state.failed for name, state in sorted(self._states.items()) if state.failed is not None}
        return redacted("; ".join(f"tool {name} could not be set up: {why}" for name, why in failed.items())) or None

    def check(self, tool: Tool) -> None:
        """Raises SetupFailed if the tool could not be set up and it is too early to try again."""
        state = self._states.get(tool.name)
        if state is not None and state.failed is not None and time.monotonic() < state.until:
            raise SetupFailed(*state.failed.args)

    def begin(self, tool: Tool) -> None:
        """Closes the pool of a tool that is being set up before its first job, until its setup has worked."""
        self._states[tool.name] = SetupState(tool, 0, None, float("inf"))

    def failed(self, tool: Tool, failed: SetupFailed) -> float:
        """Notes a failure, and returns after how many seconds to try again."""
        state = self._states.get(tool.name) or SetupState(tool, 0, None, 0.0)
        if time.monotonic() < state.until < float("inf"):
            # Another thread failed just now, or another job waited for the same setup.
            return state.until - time.monotonic()
        pause_s = bound_s(state.tries + 1, FIRST_S, MOST_S)
        until = max(state.until, time.monotonic() + pause_s)
        self._states[tool.name] = SetupState(tool, state.tries + 1, failed, until)
        log.error(
            "tool %s could not be set up; for %.0f s this worker takes no jobs of pool %s: %s",
            tool.name,
            pause_s,
            tool.pool,
            redacted(failed.error),
            extra={"tool": tool.name, "exception": redacted(failed.traceback or "")},
        )
        return pause_s

    def worked(self, tool: Tool) -> None:
        state = self._states.pop(tool.name, None)
        if state is not None and state.failed is not None:
            log.info("tool %s is set up now", tool.name, extra={"tool": tool.name})

    def open_pools(self, pools: Sequence[str]) -> tuple[str, ...]:
        """The pools to claim from now."""
        if not self._states:
            return tuple(pools)
        now = time.monotonic()
        closed = {state.tool.pool for state in self._states.values() if now < state.until}
        return tuple(pool for pool in pools if pool not in closed)

    def next_try_s(self) -> float:
        """How many seconds until another pool opens."""
        now = time.monotonic()
        return min((state.until - now for state in self._states.values() if now < state.until), default=float("inf"))
