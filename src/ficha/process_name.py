"""What this process is called where operators see it: in the database's list of sessions, and in traces."""

from __future__ import annotations

import os
import socket
from typing import Final, Literal

Role = Literal["server", "worker"]
SESSION_CHARS: Final = 63
"""PostgreSQL keeps no more of a session's name."""

_role: Role | None = None
_name: str | None = None


def take_role(role: Role, name: str | None = None) -> None:
    """Says what this process is, from now on. Without it, it is somebody's application that uses Ficha.

    name: that of a worker, if it was given one.
    """
    global _role, _name
    _role, _name = role, name


def service_name() -> str:
    """ficha-server, ficha-worker or ficha."""
    return "ficha" if _role is None else f"ficha-{_role}"


def session_name() -> str:
    """The same with the machine, the process id and the worker's name: `ficha-worker web-1:4711 gpu-a`."""
    whole = " ".join(filter(None, (service_name(), f"{socket.gethostname()}:{os.getpid()}", _name)))
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in whole[:SESSION_CHARS])
