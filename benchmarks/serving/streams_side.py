"""The process that holds the live streams open, and counts and times what comes over them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import uvloop

from ..endurance.findings import percentile
from ..peer import Wrong
from ..processes import serve
from .wire import Stream, connect, request


class Followers:
    """Streams of jobs, and streams of accounts in the order of their keys."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._of_jobs: list[Stream] = []
        self._of_accounts: list[Stream] = []

    async def follow_jobs(self, jobs: list[tuple[str, str]]) -> None:
        """A stream for each job, all at a time; each is named with a key that may see it."""
        self._of_jobs += await asyncio.gather(*(self._follow(f"/api/jobs/{job}/events", key) for job, key in jobs))

    async def follow_accounts(self, keys: list[str]) -> None:
        """A stream for the account of each key."""
        self._of_accounts += await asyncio.gather(*(self._follow("/api/account/events", key) for key in keys))

    async def _follow(self, path: str, key: str) -> Stream:
        stream = await connect(self._port, Stream)
        status = await stream.ask(request(path, key, accept="text/event-stream"))
        if status != 200:
            raise Wrong(f"a stream of {path} was answered with {status}")
        return stream

    async def set_clock(self) -> None:
        """From now on it is timed how long what happens takes to arrive."""
        for stream in (*self._of_jobs, *self._of_accounts):
            stream.set_clock()

    async def seen(self) -> dict[str, Any]:
        """How things are: streams that are open or were ended by the server's word, what came, and after how long."""
        streams = [*self._of_jobs, *self._of_accounts]
        return {
            "alive": sum(not stream.is_lost for stream in streams),
            "ended": sum(stream.is_ended for stream in self._of_jobs),
            "disordered": sum(not stream.is_in_order for stream in streams),
            "events": sum(stream.kinds.total() for stream in streams),
            "keep_alives": min(stream.keep_alives for stream in self._of_jobs),
            "whole": sum(_is_whole(stream) for stream in self._of_jobs),
            "accounts": [dict(stream.kinds) for stream in self._of_accounts],
            "job_lag": _summary(self._of_jobs),
            "account_lag": _summary(self._of_accounts),
        }

    def close(self) -> None:
        for stream in (*self._of_jobs, *self._of_accounts):
            stream.close()


def _is_whole(stream: Stream) -> bool:
    """Whether it saw its job's life from the beginning to the end, once."""
    return stream.is_ended and stream.kinds["submitted"] == stream.kinds["completed"] == 1


def _summary(streams: Iterable[Stream]) -> dict[str, float] | None:
    lags_ms = [lag_s * 1_000 for stream in streams for lag_s in stream.lags_s]
    if not lags_ms:
        return None
    return {
        "events": len(lags_ms),
        "p50_ms": percentile(lags_ms, 0.5),
        "p99_ms": percentile(lags_ms, 0.99),
        "max_ms": max(lags_ms),
    }


async def main(arguments: Sequence[str]) -> None:
    followers = Followers(int(arguments[0]))
    await serve(
        follow_jobs=followers.follow_jobs,
        follow_accounts=followers.follow_accounts,
        set_clock=followers.set_clock,
        seen=followers.seen,
    )
    followers.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
