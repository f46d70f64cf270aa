"""Ids: UUIDv7, in rising order within a process, so that ids sort as the things were made."""

from __future__ import annotations

import secrets
import threading
import time

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A fresh UUIDv7. The 12 bits after the milliseconds count up within one millisecond instead of being drawn."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        stamp = _last
    digits = f"{stamp >> 12:012x}7{stamp & 0xFFF:03x}{0b10 << 62 | secrets.randbits(62):016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
