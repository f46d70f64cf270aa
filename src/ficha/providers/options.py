"""Checks what the built-in providers are given: keys, the options of a call, and references to work."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import Final

from ..environment import setting
from .base import ProviderCall, ProviderError

_REFERENCE: Final = re.compile(r"[!-~]{1,255}", re.ASCII)


def credential(given: str | None, variable: str, what: str) -> str:
    """The given key, or that of the environment. Raises ValueError if it is missing or malformed."""
    found = setting(os.environ, variable) if given is None else given
    if not found or not found.isascii() or not found.isprintable():
        raise ValueError(f"{what} is missing or malformed; give it, or set {variable}")
    return found


def check_options(call: ProviderCall, known: Collection[str]) -> None:
    """Refuses an option that the provider does not know, for good: it is the tool's mistake; a retry cannot help."""
    unknown = sorted(call.options.keys() - set(known))
    if unknown:
        words = f"unknown option {unknown[0]!r} of the call; known are: {', '.join(sorted(known)) or 'none'}"
        raise ProviderError(words, final=True, was_sent=False, is_fault=False)


def reference(text: str | None, whose: str) -> str:
    """A provider's reference to its work; raises ProviderError if it is missing or cannot be stored."""
    if text is None or _REFERENCE.fullmatch(text) is None:
        raise ProviderError(f"the answer of {whose} has no reference to the work that it started")
    return text
