"""A store that keeps everything in this process and forgets it at the end: for tests and simulations."""

from .store import MemoryStore

__all__ = ["MemoryStore"]
