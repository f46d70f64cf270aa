"""The process that attacks: as many requests as the server answers, over a number of connections, at the lowest
priority, so that what it takes of the processors is what the others leave."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import uvloop

from ..processes import serve
from ..serving.wire import HEAD_END, connect
from .attacks import ATTACKS

NICE: Final = 19
HELD_S: Final = 0.5
"""How long a stream is held before the next one is opened in its place."""
AGAIN_S: Final = 0.05
"""The pause after a connection that was refused or lost."""
_LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class Taker(asyncio.Protocol):
    """A connection whose answers are counted and thrown away."""

    def __init__(self) -> None:
        self.bytes = 0
        self._head = b""
        self._left: int | None = None
        """Bytes of the body that are still to come; None before the head, below zero for a stream."""
        self._status = 0
        self._answer: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def ask(self, asked: bytes) -> asyncio.Future[int]:
        """The status of the answer, or 0 if the connection ended first."""
        self._head, self._left = b"", None
        self._answer = asyncio.get_running_loop().create_future()
        if self._transport.is_closing():
            self.connection_lost(None)
        else:
            self._transport.write(asked)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)
        if self._left is None:
            self._head += data
            head, blank, data = self._head.partition(HEAD_END)
            if not blank:
                return
            self._status = int(head[9:12])
            length = _LENGTH.search(head + b"\r\n")
            self._left = 0 if self._status == 304 else -1 if length is None else int(length[1])
        if self._left < 0:
            self._end()
        else:
            self._left -= len(data)
            if self._left <= 0:
                self._end()

    def _end(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(self._status)

    def connection_lost(self, exc: Exception | None) -> None:
        self._status = 0
        self._end()

    @property
    def is_closed(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()


class Attacker:
    def __init__(self, port: int) -> None:
        self._port = port

    async def attack(self, name: str, key: str, seconds: float) -> dict[str, Any]:
        """Attacks for so long, and tells what it was answered."""
        attack = ATTACKS[name]
        statuses: Counter[int] = Counter()
        received = 0
        begins_at, used_s = time.monotonic(), time.process_time()
        ends_at = begins_at + seconds

        async def one(requests: Iterator[bytes]) -> None:
            nonlocal received
            taker: Taker | None = None
            for asked in requests:
                if time.monotonic() >= ends_at:
                    break
                if taker is None or taker.is_closed:
                    try:
                        taker = await connect(self._port, Taker)
                    except OSError:
                        statuses[0] += 1
                        await asyncio.sleep(AGAIN_S)
                        continue
                status = await taker.ask(asked)
                statuses[status] += 1
                if attack.holds and status == 200:
                    await asyncio.sleep(HELD_S)
                elif status == 0 or attack.holds:
                    await asyncio.sleep(AGAIN_S)
                if attack.holds:
                    taker.close()
                received += taker.bytes
                taker.bytes = 0
            if taker is not None:
                taker.close()

        tasks = [asyncio.create_task(one(attack.requests(key, number))) for number in range(attack.connections)]
        _, late = await asyncio.wait(tasks, timeout=seconds + 5)
        for task in late:
            task.cancel()
        for failed in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(failed, Exception):
                raise failed
        return {
            "statuses": {str(status): times for status, times in sorted(statuses.items())},
            "took_s": time.monotonic() - begins_at,
            "cpu_s": time.process_time() - used_s,
            "received": received,
        }


async def main(arguments: Sequence[str]) -> None:
    os.nice(NICE)
    attacker = Attacker(int(arguments[0]))
    await serve(attack=attacker.attack)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
