"""A real S3-compatible server, moto's, in a process of its own: `python -m tests.support.s3_server` prints its port and
serves until its input ends, so it does not outlive the tests that started it."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
KEYS = {"AWS_ACCESS_KEY_ID": "test-key", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_REGION": "us-east-1"}


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    command = [sys.executable, "-m", "tests.support.s3_server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield S3Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


class S3Server:
    """What a test knows of the server, and may ask it behind a storage's back."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def bucket(self, name: str) -> str:
        """Makes a bucket, and returns the URL of a storage in it."""
        httpx.put(f"{self.endpoint}/{name}").raise_for_status()
        return f"s3://{name}/some/prefix?endpoint={self.endpoint}"

    def unfinished(self, name: str) -> int:
        """How many multipart uploads were begun in the bucket and are neither complete nor removed."""
        return httpx.get(f"{self.endpoint}/{name}?uploads").raise_for_status().text.count("<UploadId>")

    def remove(self, name: str) -> None:
        httpx.delete(f"{self.endpoint}/{name}").raise_for_status()

    def keys(self, name: str) -> int:
        return httpx.get(f"{self.endpoint}/{name}?list-type=2").raise_for_status().text.count("<Key>")


def main() -> None:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
