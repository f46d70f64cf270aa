"""The worker's log: one line for each change of a job, always with the same fields.

Lines go through Python's logging with the fields as `extra`, so an application formats them like its own lines;
`ficha worker` prints them as JSON, or as text in a terminal. Payloads and results are never logged.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from .context import Facts

log = logging.getLogger("ficha.worker")

_SECRETS: Final = re.compile(
    # Each repetition is bounded, so the time grows linearly with the text and not with its square.
    r"(?P<url>\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@]{0,200}:)[^\s@]{1,200}(?=@)"
    r"|(?P<name>\b(?:authorization|bearer|token|api[_-]?key|secret|password|passwd|pwd)\b['\"]?\s*[:=]?\s*['\"]?(?:bearer\s+)?)"
    r"[^\s'\",;&)}\]]{6,}"
    r"|\b(?:sk|pk|rk|ghp|gho|xox[abp]|r8|hf|AKIA|ficha_(?:user|service|admin))[-_]?[A-Za-z0-9_-]{16,}",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """The text without what looks like a password, a token or an API key.

    An exception's message becomes the job's error, which its owner sees; libraries often put credentials into it.
    """
    return _SECRETS.sub(lambda found: f"{found['url'] or found['name'] or ''}[hidden]", text)


def is_logged() -> bool:
    """Whether lines about ordinary runs are logged at all."""
    return log.isEnabledFor(logging.INFO)


def record(
    message: str, facts: Facts, status: str, duration_s: float = 0.0, *, level: int = logging.INFO, **more: Any
) -> None:
    """Logs one line about a job; the duration is that of the run so far."""
    if log.isEnabledFor(level):
        log.log(level, message, extra={**facts.fields, "status": status, "duration_s": round(duration_s, 6), **more})
