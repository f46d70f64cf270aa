"""A terminal for the command: what a person would see, read as it comes."""

import os
import pty
import re
import select
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import ForkedProcess

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """The command on a terminal of its own, a hundred columns wide."""

    def __init__(self, process: ForkedProcess, side: int) -> None:
        self._process = process
        self._side = side
        self.raw = ""

    @property
    def shown(self) -> str:
        """All that was shown so far, without colours and movements."""
        return _CONTROL.sub("", self.raw)

    def wait_for(self, words: str, within_s: float = 30.0) -> None:
        ends_at = time.monotonic() + within_s
        while words not in self.shown:
            assert self._read(ends_at), f"{words!r} was not shown, but {self.shown!r}"

    def press_ctrl_c(self) -> None:
        os.write(self._side, b"\x03")

    def press(self, key: str) -> None:
        os.write(self._side, key.encode())

    @property
    def settings(self) -> list[object]:
        """How the terminal is set: whether it shows what is typed, and the rest."""
        return termios.tcgetattr(self._side)

    def enter(self, text: str) -> None:
        os.write(self._side, f"{text}\n".encode())

    def end(self, within_s: float = 30.0) -> int:
        """Reads to the end; what the process ended with."""
        ends_at = time.monotonic() + within_s
        while self._read(ends_at):
            pass
        return self._process.wait(timeout=10)

    def _read(self, ends_at: float) -> bool:
        ready, _, _ = select.select([self._side], [], [], max(0.0, ends_at - time.monotonic()))
        try:
            part = os.read(self._side, 65_536) if ready else b""
        except OSError:  # How Linux says that nobody writes to the terminal any more.
            part = b""
        self.raw += part.decode(errors="replace")
        return bool(part)


@contextmanager
def terminal(*arguments: str, cwd: Path, columns: int = 100, **variables: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    process = ForkedProcess(
        None,
        arguments,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=environment | {"TERM": "xterm-256color"} | variables,
        # With a session of its own and this terminal as its, Ctrl-C reaches it as from a keyboard.
        session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
