"""Settings from the environment: a variable, or a file that the variable with `_FILE` appended names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class SettingError(ValueError):
    """A setting is missing or invalid; the message says what to set."""


def setting(source: Mapping[str, str], variable: str) -> str | None:
    """A variable's text, or that of its file; None if neither is set."""
    if value := source.get(variable):
        return value
    if path := source.get(f"{variable}_FILE"):
        try:
            return Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise SettingError(f"{variable}_FILE: {error}") from None
    return None


def listed(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated text."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
