"""Tells the service manager (systemd, `Type=notify`) that a process is ready, or stops. Elsewhere it does nothing."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def tell(state: str) -> None:
    """Sends a state, such as `READY=1`, to the socket that NOTIFY_SOCKET names. A manager that is gone is no error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    # An address that begins with "@" is an abstract one.
    place = f"\0{address[1:]}" if address[0] == "@" else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        manager.sendto(state.encode(), place)
