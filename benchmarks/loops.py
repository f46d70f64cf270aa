"""The event loops that everything can be measured on, in this process and in those that it starts."""

from __future__ import annotations

import asyncio
from typing import Final

import uvloop

LOOPS: Final = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


def current() -> str:
    return "uvloop" if isinstance(asyncio.get_running_loop(), uvloop.Loop) else "asyncio"
