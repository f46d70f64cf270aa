"""What is kept from the garbage collector: JSON while it is read, and what a process of our own has loaded."""

from __future__ import annotations

import gc
import threading
from typing import Final


class _Uncollected:
    """Turns garbage collection off while at least one thread is inside, then restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_on = False

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._was_on:
                gc.enable()


uncollected: Final = _Uncollected()
"""Used while large JSON is read: the collector would scan every list and object again and again, though JSON has no
cycles."""


def freeze_objects() -> None:
    """Excludes all present objects from garbage collection. A process of our own calls it once it has started; its full
    collections then no longer traverse the modules and classes, which takes 20 ms and more each time."""
    gc.collect()
    gc.freeze()
