"""A server process for the tests of the supervisor, with little to import."""

import os
import select
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ficha.server.supervisor import Serve, Stoppable


class Child:
    """A child that answers every connection with 200 and its pid. It exits with an error, or kills itself, where a file
    in its folder says so."""

    def __init__(self) -> None:
        self._told, self._tells = socket.socketpair()

    def stop(self, *, at_once: bool = False) -> None:
        self._tells.send(b"stop")

    def serve(
        self, folder: Path, sock: socket.socket, started: Callable[[], None], stop_with: Callable[[Stoppable], None]
    ) -> None:
        _note(folder / "told")
        if (folder / "fails").exists():
            raise RuntimeError("this child cannot start")
        if (folder / "dies").exists():
            (folder / "dies").unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)
        stop_with(self)
        sock.setblocking(False)
        sock.listen(16)
        started()
        while True:
            ready, _, _ = select.select([sock, self._told], [], [])
            if self._told in ready:
                sock.close()
                while (folder / "lingers").exists():
                    select.select([], [], [], 0.02)
                return
            try:
                connection, _ = sock.accept()
            except BlockingIOError:
                continue
            with connection:
                connection.setblocking(True)
                connection.recv(65_536)
                body = str(os.getpid())
                connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())


def prepare(folder: Path) -> Serve:
    while (folder / "holds").exists():
        select.select([], [], [], 0.02)
    _note(folder / "prepared")
    return partial(Child().serve, folder)


def _note(path: Path) -> None:
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")
