"""A file of any size passes through a real server process in the same memory, up and down."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.s3_server import KEYS, S3Server

ROOT = Path(__file__).parents[2]
MIB = 1_048_576
GROWTH_MIB = {"disk": 16, "s3": 112}
"""How much larger the process may become than it was after a first small file: pieces of 1 MiB on their way to the
disk, or several parts of 8 MiB on their way to S3 and what obstore copies of them."""
WARM_MIB = 2


@contextmanager
def file_server(url: str) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "tests.files.file_server", url]
    with subprocess.Popen(
        command, cwd=ROOT, env=os.environ | KEYS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/file", process.pid
        finally:
            process.kill()


def peak_mib(pid: int) -> float:
    """The most that the process ever had in memory."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def round_trip(http: httpx.Client, url: str, mib: int) -> None:
    """Neither side of the test holds the file: it is made as it is sent, and digested as it comes."""
    block = os.urandom(MIB)
    sent = hashlib.sha256()

    def body() -> Iterator[bytes]:
        yield b'--frontier\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n'
        for number in range(mib):
            piece = number.to_bytes(8, "big") + block[8:]
            sent.update(piece)
            yield piece
        yield b"\r\n--frontier--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=frontier"}
    stored = http.post(url, content=body(), headers=headers).raise_for_status().json()
    assert stored == {"size": mib * MIB, "digest": sent.hexdigest()}
    received = hashlib.sha256()
    with http.stream("GET", url) as answer:
        for chunk in answer.iter_raw():
            received.update(chunk)
    assert received.digest() == sent.digest()


def assert_memory_is_flat(url: str, mib: int, growth_mib: int) -> None:
    with file_server(url) as (address, pid), httpx.Client(timeout=100) as http:
        round_trip(http, address, WARM_MIB)
        before = peak_mib(pid)
        round_trip(http, address, mib)
        grown = peak_mib(pid) - before

    assert grown <= growth_mib, f"{mib} MiB took {grown:.0f} MiB of memory"


def test_tens_of_megabytes_pass_through_local_disk_in_flat_memory(tmp_path: Path) -> None:
    assert_memory_is_flat(f"file:{tmp_path}/files", 48, GROWTH_MIB["disk"])


@pytest.mark.long
def test_a_gigabyte_passes_through_local_disk_in_flat_memory(tmp_path: Path) -> None:
    assert_memory_is_flat(f"file:{tmp_path}/files", 1_024, GROWTH_MIB["disk"])


@pytest.mark.long
def test_a_gigabyte_passes_through_s3_in_flat_memory(s3: S3Server, bucket: str) -> None:
    assert_memory_is_flat(s3.bucket(bucket), 1_024, GROWTH_MIB["s3"])
