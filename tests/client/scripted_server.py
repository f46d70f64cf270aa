"""A server of a few lines on a real socket: it answers each request with the next bytes that a test prepared."""

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

HANG_UP = b""
"""Closes the connection instead of answering."""


class Wire:
    """What came in, request by request, and what goes out."""

    def __init__(self, replies: list[bytes]) -> None:
        self.replies = replies
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.url = ""
        self.over = threading.Event()


@contextmanager
def wire(*replies: bytes, tls: ssl.SSLContext | None = None) -> Iterator[Wire]:
    state = Wire(list(replies))

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while (head := self._head()) and state.replies:
                state.requests.append(head)
                state.bodies.append(self.rfile.read(_length(head)))
                reply = state.replies.pop(0)
                if reply == HANG_UP:
                    return
                self.wfile.write(reply)
                self.wfile.flush()
                if b"text/event-stream" in reply:
                    return
            if head:
                state.requests.append(head)
                state.over.wait(10)

        def _head(self) -> str:
            lines = []
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                lines.append(line.decode())
            return "".join(lines)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

        def get_request(self) -> Any:
            connection, address = super().get_request()
            return (connection if tls is None else tls.wrap_socket(connection, server_side=True)), address

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that goes away in the middle is what these tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        state.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            state.over.set()
            server.shutdown()
            thread.join()


def _length(head: str) -> int:
    for line in head.lower().splitlines():
        if line.startswith("content-length:"):
            return int(line.partition(":")[2])
    return 0


def http(status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> bytes:
    """An answer as it goes over the wire."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def live(body: bytes) -> bytes:
    """A stream that ends when the connection does."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + body
