"""`python -m benchmarks.files`: uploads and downloads through a real server, beside what the disk does by itself.

In each round the same bytes are written to the disk and flushed, uploaded, read from the disk, and downloaded. What is
read is first dropped from the system's cache, so that it comes from the disk. The client has a part of the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import uvloop
from rich.console import Console
from rich.table import Table

from ficha import Ficha, Plan

from . import machine
from .databases import databases
from .endurance.application import migrate
from .peer import Wrong
from .processes import cpu_s
from .serving.commands import serving

MIB: Final = 1_048_576
ACCOUNT: Final = "measured"
UPLOAD_SHARE: Final = 0.10
DOWNLOAD_SHARE: Final = 0.10
"""The least share of the disk's own rate, of one connection to one server process: a floor against regressions, set
after the first runs, on a machine that others used as well."""
HEAD: Final = b'--frontier\r\nContent-Disposition: form-data; name="file"; filename="clip.mp4"\r\n\r\n'
TAIL: Final = b"\r\n--frontier--\r\n"
VIDEO: Final = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"

app = Ficha(plans=[Plan("pro")])
"""What the server under measure loads."""


@dataclass(frozen=True)
class Round:
    """Rates in MiB per second, and the server's processor time in seconds per GiB."""

    disk_write: float
    upload: float
    disk_read: float
    download: float
    upload_cpu_s: float
    download_cpu_s: float


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    is_busy = machine.is_busy()
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120, highlight=False)
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        databases("sqlite") as kinds,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        facts = runner.run(machine.facts(kinds, "uvloop"))
        rounds = runner.run(_measured(kinds[0], Path(folder), options.mib, options.rounds, console))
    figures = _figures(rounds)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        result = {"machine": facts, "mib": options.mib, "figures": figures, "rounds": [asdict(one) for one in rounds]}
        (options.output / "files.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        (options.output / "FILES.md").write_text(_markdown(facts, options, figures, is_busy=is_busy), encoding="utf-8")
    _show(facts, figures)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.files", description="Measures uploads and downloads beside the disk itself."
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run whose figures mean nothing")
    parser.add_argument("--mib", type=int, help="the size of the file [512]")
    parser.add_argument("--rounds", type=int, help="how often each rate is measured; the median counts [5]")
    parser.add_argument("--folder", type=Path, help="on the disk to measure [the temporary folder]")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where FILES.md and files.json are written")
    options = parser.parse_args(arguments)
    is_whole = not (options.quick or options.mib or options.rounds or options.folder)
    options.mib = options.mib or (8 if options.quick else 512)
    options.rounds = options.rounds or (1 if options.quick else 5)
    options.output = options.output or (Path(__file__).parent if is_whole else None)
    return options


async def _measured(kind: Any, folder: Path, mib: int, rounds: int, console: Console) -> list[Round]:
    os.environ["FICHA_FILES_URL"] = f"file:{folder}/files"
    async with kind.fresh() as url:
        await migrate(url)
        async with Ficha(url, plans=[Plan("pro")]) as behind:
            await behind.open_account(ACCOUNT, plan="pro")
            key = (await behind.create_api_key(ACCOUNT, account=ACCOUNT)).secret
        async with serving(url, application=f"{__spec__.name}:app") as (server, port):
            found = []
            for number in range(rounds + 1):
                with console.status(f"round {number} of {rounds}"):
                    found.append(await asyncio.to_thread(_round, folder, server.pid, port, key, mib))
            if complaints := server.complaints():
                raise Wrong(f"the server complained: {complaints[0]}")
        # The first one warms up.
        return found[1:]


def _round(folder: Path, pid: int, port: int, key: str, mib: int) -> Round:
    block = VIDEO + os.urandom(MIB - len(VIDEO))
    raw = folder / "raw"
    disk_write, _ = _timed(pid, lambda: _write(raw, block, mib))
    (upload, upload_cpu_s), file = _uploaded(pid, port, key, block, mib)
    _drop_from_cache(raw)
    disk_read, _ = _timed(pid, lambda: _read(raw))
    for stored in (folder / "files").rglob("*"):
        if stored.is_file():
            _drop_from_cache(stored)
    download, download_cpu_s = _timed(pid, lambda: _download(port, key, file, mib))
    _request(port, key, f"DELETE /api/files/{file}")
    raw.unlink()
    return Round(
        mib / disk_write, mib / upload, mib / disk_read, mib / download,
        upload_cpu_s * 1024 / mib, download_cpu_s * 1024 / mib,
    )  # fmt: skip


def _timed(pid: int, call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock, and of the server's processor time."""
    used, began = cpu_s(pid), time.perf_counter()
    call()
    return time.perf_counter() - began, cpu_s(pid) - used


def _write(path: Path, block: bytes, mib: int) -> None:
    with open(path, "wb", buffering=0) as file:
        for _ in range(mib):
            file.write(block)
        os.fsync(file.fileno())


def _read(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(MIB):
            pass


def _drop_from_cache(path: Path) -> None:
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _uploaded(pid: int, port: int, key: str, block: bytes, mib: int) -> tuple[tuple[float, float], str]:
    answer: dict[str, Any] = {}

    def upload() -> None:
        size = len(HEAD) + mib * MIB + len(TAIL)
        headers = f"Content-Type: multipart/form-data; boundary=frontier\r\nContent-Length: {size}"
        with _connected(port, key, "POST /api/uploads", headers) as connection:
            connection.sendall(HEAD)
            for _ in range(mib):
                connection.sendall(block)
            connection.sendall(TAIL)
            answer.update(_json(connection)["file"])

    took = _timed(pid, upload)
    if answer.get("size") != mib * MIB:
        raise Wrong(f"the upload was answered with {answer}")
    return took, answer["id"]


def _download(port: int, key: str, file: str, mib: int) -> None:
    buffer = bytearray(MIB)
    received = 0
    with _connected(port, key, f"GET /api/files/{file}") as connection:
        first = connection.recv(65_536)
        if b" 200 " not in first[:20]:
            raise Wrong(f"the download was answered with {first[:500]!r}")
        while count := connection.recv_into(buffer):
            received += count
    if received < (mib - 1) * MIB:
        raise Wrong(f"{received} bytes of {mib} MiB came")


def _request(port: int, key: str, line: str) -> None:
    with _connected(port, key, line) as connection:
        found = connection.recv(65_536)
    if found[9:10] != b"2":
        raise Wrong(f"{line} was answered with {found[:500]!r}")


@contextmanager
def _connected(port: int, key: str, line: str, headers: str = "") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        lines = [f"{line} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}", "Connection: close", headers]
        connection.sendall(("\r\n".join(filter(None, lines)) + "\r\n\r\n").encode())
        yield connection


def _json(connection: socket.socket) -> dict[str, Any]:
    text = b""
    while chunk := connection.recv(65_536):
        text += chunk
    head, _, body = text.partition(b"\r\n\r\n")
    if head[9:10] != b"2":
        raise Wrong(f"the upload was answered with {text[:500]!r}")
    found: dict[str, Any] = json.loads(body)
    return found


def _figures(rounds: list[Round]) -> list[dict[str, Any]]:
    """A share is the median of the shares within each round."""
    return [
        {
            "what": what,
            "disk_mib_s": round(statistics.median(getattr(one, disk) for one in rounds)),
            "served_mib_s": round(statistics.median(getattr(one, served) for one in rounds)),
            "share": round(share := statistics.median(getattr(one, served) / getattr(one, disk) for one in rounds), 3),
            "target": target,
            "is_reached": share >= target,
            "server_cpu_s_per_gib": round(statistics.median(getattr(one, f"{served}_cpu_s") for one in rounds), 2),
        }
        for what, disk, served, target in (
            ("upload, beside a write that is flushed", "disk_write", "upload", UPLOAD_SHARE),
            ("download, beside a read from the disk", "disk_read", "download", DOWNLOAD_SHARE),
        )
    ]


def _rows(figures: list[dict[str, Any]]) -> list[list[str]]:
    return [
        ["", "disk, MiB/s", "served, MiB/s", "share", "target", "reached", "server's processor time, s/GiB"],
        *(
            [
                figure["what"],
                f"{figure['disk_mib_s']:,}",
                f"{figure['served_mib_s']:,}",
                f"{figure['share']:.0%}",
                f"at least {figure['target']:.0%}",
                "yes" if figure["is_reached"] else "**no**",
                f"{figure['server_cpu_s_per_gib']:.2f}",
            ]
            for figure in figures
        ),
    ]


def _markdown(
    facts: dict[str, str], options: argparse.Namespace, figures: list[dict[str, Any]], *, is_busy: bool
) -> str:
    head, *rows = _rows(figures)
    lines = [
        "# Files",
        "",
        "Written by `python -m benchmarks.files`. Absolute figures move from run to run and from machine to machine;",
        "compare within one run.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        f"| {' | '.join(head)} |",
        f"|{' --- |' + ' ---: |' * (len(head) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        f"- A file of {options.mib} MiB, {options.rounds} rounds. In each, the same bytes are written to the disk and",
        "  flushed, uploaded (multipart) over one connection to `ficha serve`, read from the disk, and downloaded.",
        "  What is read was dropped from the system's cache before. A figure is the median, a share the median within",
        "  each round.",
        "- The server counts, digests, stores, flushes and looks into what is uploaded before it answers. Server and",
        "  client share the cores.",
        "- The targets are floors against regressions, set after the first runs.",
        *(["- Other work took a part of the machine, which the disk's own rate suffers from less."] if is_busy else []),
        "",
    ]
    return "\n".join(lines)


def _show(facts: dict[str, str], figures: list[dict[str, Any]]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    for name, value in facts.items():
        console.print(f"{name}: {value}")
    head, *rows = _rows(figures)
    table = Table()
    for name in head:
        table.add_column(name, justify="right" if name else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
