"""What every command is."""

from __future__ import annotations

from msgspec import Struct


class Command(Struct, frozen=True, gc=False, tag=True):
    """The base of all commands. They are tagged with their name, so that saved ones can be read and decided again."""
