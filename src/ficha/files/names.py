"""File names as text: what a user called a file, cleaned so that it can be shown, and never used as a path."""

from __future__ import annotations

import unicodedata
from typing import Final
from urllib.parse import quote

NAME_CHARS: Final = 200
"""The longest name that is kept; a longer one loses the end of its stem, and keeps an extension of up to 20
characters."""


def clean_name(given: str | None, default: str = "file") -> str:
    """A name without folders and without invisible characters: control characters, and those that turn the direction of
    writing, which can show `gpj.exe` as `exe.jpg`."""
    text = (given or "").replace("\\", "/").rpartition("/")[2]
    text = "".join(" " if char.isspace() else char for char in text if char.isspace() or _can_be_seen(char))
    text = " ".join(text.split()).strip(". ")
    if len(text) > NAME_CHARS:
        stem, dot, ending = text.rpartition(".")
        kept = dot + ending if stem and len(ending) <= 20 else ""
        text = text[: NAME_CHARS - len(kept)] + kept
    return text or default


def _can_be_seen(char: str) -> bool:
    return unicodedata.category(char)[0] != "C"


def content_disposition(name: str, *, inline: bool) -> str:
    """The header that names a download: plain ASCII for old readers, and the name itself as RFC 6266 has it."""
    cleaned = clean_name(name)
    plain = "".join(char if char.isascii() and char not in '"\\%;' else "_" for char in cleaned)
    kind = "inline" if inline else "attachment"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(cleaned, safe='')}"
