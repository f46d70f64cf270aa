"""Ids: UUIDv7, in rising order within a process, so that ids sort as the things were made."""

from __future__ import annotations

import secrets
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A fresh UUIDv7. The 12 bits after the milliseconds count up within one millisecond instead of being drawn."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        stamp = _last
    bits = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=bits))
