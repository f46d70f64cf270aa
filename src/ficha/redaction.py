"""Takes passwords, tokens and API keys out of texts that are stored or logged."""

from __future__ import annotations

import re
from typing import Final

_SECRETS: Final = re.compile(
    # Each repetition is bounded, so the time grows linearly with the text and not with its square.
    r"(?P<url>\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@]{0,200}:)[^\s@]{1,200}(?=@)"
    r"|(?P<name>\b(?:authorization|bearer|token|api[_-]?key|secret|password|passwd|pwd)\b['\"]?\s*[:=]?\s*['\"]?(?:bearer\s+)?)"
    r"[^\s'\",;&)}\]]{6,}"
    r"|\b(?:sk|pk|rk|ghp|gho|xox[abp]|r8|hf|AKIA|ficha_(?:user|service|admin|viewer))[-_]?[A-Za-z0-9_-]{16,}",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """The text without what looks like a password, a token or an API key.

    An exception's message becomes the job's error, which its owner sees; libraries often put credentials into it.
    """
    return _SECRETS.sub(lambda found: f"{found['url'] or found['name'] or ''}[hidden]", text)
