"""The worker's log: one line for each change of a job, always with the same fields.

Lines go through Python's logging with the fields as `extra`, so an application formats them like its own lines;
`ficha worker` prints them as JSON, or as text in a terminal. Payloads and results are never logged.
"""

from __future__ import annotations

import logging
from typing import Any

from .context import Facts

log = logging.getLogger("ficha.worker")


def is_logged(level: int = logging.INFO) -> bool:
    """Whether lines of this level are logged at all."""
    return log.isEnabledFor(level)


def record(
    message: str, facts: Facts, status: str, duration_s: float = 0.0, *, level: int = logging.INFO, **more: Any
) -> None:
    """Logs one line about a job; the duration is that of the run so far."""
    if log.isEnabledFor(level):
        log.log(level, message, extra={**facts.log_fields(status, duration_s), **more})
