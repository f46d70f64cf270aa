"""Ids: UUIDv7, increasing within a process, so that ids sort by time of creation."""

from __future__ import annotations

import secrets
import threading
import time

_lock = threading.Lock()
_last = 0


def first_id_at(at: int) -> str:
    """The least id that `new_id` can make in the millisecond of an instant in microseconds."""
    ms = max(0, at // 1_000)
    return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7000-8000-000000000000"


def new_id() -> str:
    """A new UUIDv7. The 12 bits after the milliseconds are a counter instead of random bits."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        stamp = _last
    draw = secrets.randbits(62)
    return "%08x-%04x-7%03x-%04x-%012x" % (  # noqa: UP031 (no other form is as fast)
        stamp >> 28,
        stamp >> 12 & 0xFFFF,
        stamp & 0xFFF,
        0x8000 | draw >> 48,
        draw & 0xFFFF_FFFF_FFFF,
    )
