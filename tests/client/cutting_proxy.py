"""A connection to a server that is cut again and again, after as many bytes as a seed says."""

import random
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class CuttingProxy:
    """Passes bytes on, and cuts each connection after some of those that come from the server, until it is let be."""

    def __init__(self, target: tuple[str, int], seed: int, most_bytes: int) -> None:
        self._target = target
        self._random = random.Random(seed)
        self._most_bytes = most_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        self.let_be_after = 10**9
        self._over = False

    def accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            left = self._random.randrange(1, self._most_bytes)
            thread = threading.Thread(target=self._pass_on, args=(client, left))
            thread.start()
            self._threads.append(thread)

    def _pass_on(self, client: socket.socket, left: int) -> None:
        with client, socket.create_connection(self._target) as server:
            while not self._over:
                ready, _, _ = select.select([client, server], [], [], 0.05)
                for side in ready:
                    try:
                        part = side.recv(65_536)
                    except OSError:
                        return
                    if not part:
                        return
                    if side is client:
                        server.sendall(part)
                        continue
                    cuts = self.cuts < self.let_be_after
                    client.sendall(part[:left] if cuts else part)
                    left -= len(part)
                    if cuts and left <= 0:
                        self.cuts += 1
                        return

    def close(self) -> None:
        self._over = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@contextmanager
def proxy(url: str, *, seed: int, most_bytes: int) -> Iterator[CuttingProxy]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    between = CuttingProxy((parts.hostname, parts.port), seed, most_bytes)
    accepting = threading.Thread(target=between.accept)
    accepting.start()
    try:
        yield between
    finally:
        between.close()
        accepting.join()
