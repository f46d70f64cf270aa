"""Passes files between a worker and a handler's process, through a folder of the run that both can open.

The process has no credentials of the file storage, and a pipe is unfit for a gigabyte: the worker copies the files that
the handler reads into the folder, and stores those that the handler has written there.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from ..core.outcomes import Refusal
from ..errors import Refused
from ..file_data import FileData, chunks_of
from .steps import LeaseCall

FETCH: Final = "fetch_file"
PLACE: Final = "place_for_file"
STORE: Final = "store_file"
VERBS: Final = frozenset({FETCH, PLACE, STORE})


class FileSpool:
    """The worker's side."""

    def __init__(self, lease_call: LeaseCall) -> None:
        self._lease_call = lease_call
        self._folder: Path | None = None
        self._numbers = count(1)
        self._names: set[str] = set()

    async def call(self, verb: str, *args: Any) -> Any:
        """Answers a call of the handler's process."""
        if verb == PLACE:
            place = self._new()
            self._names.add(place.name)
            return str(place)
        if verb == STORE:
            name, given = args
            if given not in self._names:
                raise Refused.of(Refusal("INVALID_ARGUMENT", "the worker gave no such place; nothing was stored."))
            self._names.discard(given)
            place = self._place(given)
            try:
                return await self._lease_call("save_file", name, place)
            finally:
                await asyncio.to_thread(place.unlink, missing_ok=True)
        place = self._new()
        await write_to(place, await self._lease_call("open_file", *args))
        return str(place)

    def close(self) -> None:
        """Deletes the folder with all that is in it."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _new(self) -> Path:
        return self._place(str(next(self._numbers)))

    def _place(self, name: str) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ficha-run-"))
        return self._folder / name


async def open_fetched(call: LeaseCall, file_id: str) -> AsyncIterator[bytes]:
    """In the handler's process: the bytes of a file."""
    return chunks_of(Path(await call(FETCH, file_id)))


async def save_placed(call: LeaseCall, name: str, data: FileData) -> Any:
    """In the handler's process: stores a result."""
    place = Path(await call(PLACE))
    await write_to(place, chunks_of(data))
    return await call(STORE, name, place.name)


async def write_to(place: Path, chunks: AsyncIterator[bytes]) -> None:
    with await asyncio.to_thread(place.open, "wb") as file:
        async for chunk in chunks:
            await asyncio.to_thread(file.write, chunk)
