"""A stand-in for a serverless host: an HTTP call starts a worker that runs for at most 45 seconds and exits.

`POST /` starts one, unless one is under way that has not yet looked at the queue for the last time: that one takes the
new jobs too. On a real host this endpoint is the function itself: its body is one `ficha worker --burst` (or
`await app.run_worker(burst=True, max_seconds=45)`), and the host runs as many copies as it likes.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
BUDGET_S = 45
COMMAND = [sys.executable, "-m", "ficha.cli", "worker", "--app", "app:app", "--burst", "--max-seconds", str(BUDGET_S)]


class Workers:
    """At most one worker at a time; a call that comes while it runs leads to one more run after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_asked_again = False
        self._is_stopping = False
        self.runs = 0

    def ask(self) -> None:
        with self._lock:
            if self._process is not None:
                self._is_asked_again = True
            elif not self._is_stopping:
                self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(COMMAND, cwd=HERE)  # noqa: S603 (this very program)
        self.runs += 1
        threading.Thread(target=self._wait, args=(self._process,), daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        with self._lock:
            self._process = None
            if self._is_asked_again and not self._is_stopping:
                self._is_asked_again = False
                self._start()

    def stop(self) -> None:
        with self._lock:
            self._is_stopping = True
            process = self._process
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def server(port: int, workers: Workers) -> ThreadingHTTPServer:
    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 65_536))
            workers.ask()
            self._answer(202, f"{workers.runs} runs so far\n")

        def do_GET(self) -> None:
            self._answer(200, f"{workers.runs}\n")

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    return ThreadingHTTPServer(("127.0.0.1", port), Endpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8901)
    workers = Workers()
    listening = server(parser.parse_args().port, workers)
    print(f"http://127.0.0.1:{listening.server_address[1]}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=listening.shutdown).start())
    try:
        listening.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        workers.stop()
        os._exit(0)


if __name__ == "__main__":
    main()
