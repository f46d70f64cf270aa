"""What happened, in order: the last lines for whoever reads a failure, and a digest that tells two runs apart."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final

from .loop import VirtualLoop

KEPT: Final = 60


class Trace:
    """One line per event."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._digest = hashlib.blake2b(digest_size=16)
        self.last: deque[str] = deque(maxlen=KEPT)
        self.lines = 0
        self.wrong: list[str] = []
        """Sentences that say what is broken. The first one ends the run."""
        self.is_over = False
        """What happens while a run is cleared away is none of it."""

    def note(self, line: str) -> None:
        if self.is_over:
            return
        text = f"{self._loop.now:10.4f}  {line}"
        self.last.append(text)
        self._digest.update(text.encode())
        self.lines += 1

    def fail(self, sentence: str) -> None:
        if self.is_over:
            return
        self.wrong.append(sentence)
        self.note(f"WRONG: {sentence}")
        self._loop.stop()

    def digest(self) -> str:
        return self._digest.hexdigest()
