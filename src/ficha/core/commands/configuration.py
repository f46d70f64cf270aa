"""What a process that starts declares."""

from __future__ import annotations

from collections.abc import Mapping

from .base import Command


class NoteConfiguration(Command, frozen=True):
    """Compares what a process declares at its start with what was declared before, and tells what changed.

    subjects: "tool upscale", "plan pro", "limits" and so on, each with its fields as texts.
    """

    subjects: Mapping[str, Mapping[str, str]]
