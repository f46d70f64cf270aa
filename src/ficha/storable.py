"""Texts that somebody else wrote, as both databases can store them.

PostgreSQL stores no NUL character, and neither database half of a surrogate pair. Callers' texts that have one are
refused (`validation.py`). A provider's are cleaned here, once, where they come in: nobody could correct them, and the
rest of what it said counts.
"""

from __future__ import annotations

from typing import Any, Final

MARK: Final = "�"
"""What stands for a character that cannot be stored."""


def clean_text(text: str) -> str:
    """The text, with a mark in place of each character that cannot be stored."""
    if "\x00" in text:
        text = text.replace("\x00", MARK)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_json(value: Any) -> Any:
    """A JSON value whose texts and keys are clean."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_json(name): clean_json(item) for name, item in value.items()}
        case list() | tuple():
            return [clean_json(item) for item in value]
        case _:
            return value
