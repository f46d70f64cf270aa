"""Removes passwords, tokens and API keys from texts that are stored or logged, and from JSON that operators see."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_SECRETS: Final = re.compile(
    # Each repetition is bounded, so the time grows linearly with the text and not with its square.
    r"(?P<url>\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@]{0,200}:)[^\s@]{1,200}(?=@)"
    # A parameter of a URL, however short: ?token=abc, &access_token=…, &X-Amz-Signature=…
    r"|(?P<parameter>[?&](?:[a-z0-9.]{1,30}[_-]){0,3}"
    r"(?:accesskey|accesstoken|apikey|authorization|auth|authtoken|code|credential|key|passwd|password|pwd|secret|sig|signature|token)=)[^\s'\"&#<>]{1,4000}"
    r"|(?P<name>(?<![a-z0-9])(?:authorization|bearer|token|api[_-]?key|secret|password|passwd|pwd)\b"
    r"['\"]?\s*[:=]?\s*['\"]?(?:bearer\s+)?)[^\s'\",;&)}\]]{6,}"
    r"|\b(?:sk|pk|rk|ghp|gho|xox[abp]|r8|hf|AKIA|ficha_(?:user|service|admin|viewer))[-_]?[A-Za-z0-9_-]{16,}",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    """The text without what looks like a password, a token or an API key.

    An exception's message becomes the job's error, which its owner sees; libraries often put credentials into it.
    """
    return _SECRETS.sub(lambda found: f"{found[found.lastgroup] if found.lastgroup else ''}[hidden]", text)


SECRET_NAMES: Final = (
    *(
        "accesskey",
        "apikey",
        "authorization",
        "bearer",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
    ),
    *("privatekey", "pwd", "secret", "secretkey", "token"),
)
"""A field is masked if its name ends with one of these, whatever its case and its separators."""
_MASK: Final = "[hidden]"
_MAY_HOLD: Final = re.compile("|".join("[_. -]?".join(name) for name in SECRET_NAMES), re.IGNORECASE)


def masked_json(text: str) -> str:
    """JSON with "[hidden]" for the values of secret fields. The rest stays as it is written, to the last digit."""
    return bytes(_masked(msgspec.Raw(text.encode()))).decode() if _MAY_HOLD.search(text) else text


def _masked(raw: msgspec.Raw) -> msgspec.Raw:
    value = bytes(raw).lstrip()
    if value.startswith(b"{"):
        fields = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
        return _raw({name: _MASK if _is_secret(name) else _masked(one) for name, one in fields.items()})
    if value.startswith(b"["):
        return _raw([_masked(one) for one in msgspec.json.decode(value, type=list[msgspec.Raw])])
    return raw


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _is_secret(name: str) -> bool:
    return re.sub("[_. -]", "", name).lower().endswith(SECRET_NAMES)


def masked(value: Any) -> Any:
    """The same for a value that was read from JSON; also redacts the strings in it."""
    if isinstance(value, dict):
        return {name: _MASK if _is_secret(name) else masked(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked(one) for one in value]
    return redacted(value) if isinstance(value, str) else value
