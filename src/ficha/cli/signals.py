"""Signal handling that works even while a handler blocks the event loop.

The interpreter writes each signal's number to a pipe the moment it arrives; a thread reads the pipe.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def on_signals(first: Callable[[str], None], second: Callable[[str], None]) -> None:
    """Calls `first` on the first signal and `second` on each further one, on a thread, with the signal's name.

    Call it once, on the main thread.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number in SIGNALS:
        signal.signal(number, _do_nothing)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def listen() -> None:
        count = 0
        while byte := os.read(reader, 1):
            if byte[0] in SIGNALS:
                count += 1
                (first if count == 1 else second)(signal.Signals(byte[0]).name)

    threading.Thread(target=listen, name="ficha signals", daemon=True).start()


def exit_in(seconds: float) -> None:
    """Exits the process after that time, whatever its threads wait for. Nothing is flushed: they may be waiting for
    that."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _do_nothing(number: int, frame: object) -> None:
    """The interpreter writes to the pipe only for signals that have a Python handler."""
