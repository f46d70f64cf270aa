"""A savepoint around a call within the caller's transaction: an error undoes the call alone, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from ..base import StoreError
from ..schema_name import in_schema
from .drivers import Send, sender

Translate = Callable[[Exception], StoreError]
"""Makes the store's error from a driver's error."""

_NAME: Final = "ficha_call"
_USABLE: Final = "The call was undone; your transaction is usable, as it was before."
_UNUSABLE: Final = "Your transaction cannot go on: roll it back."


class CallersConnection:
    """A caller's connection as the store uses it: with the store's schema, and with the store's errors."""

    def __init__(self, send: Send, schema: str, translated: Translate) -> None:
        self._send = send
        self._schema = schema
        self._translated = translated

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        try:
            return await self._send(in_schema(query, self._schema), args)
        except Exception as error:
            raise self._translated(error) from error


@asynccontextmanager
async def savepoint(connection: Any, schema: str, translated: Translate) -> AsyncIterator[CallersConnection]:
    """The caller's connection, for one call; whatever it wrote is undone if the block raises."""
    callers = await _callers_connection(connection, schema, translated)
    try:
        await callers.fetch(f"SAVEPOINT {_NAME}")
        yield callers
    except (Exception, asyncio.CancelledError) as error:
        words = _USABLE if await _is_undone(callers) else _UNUSABLE
        if isinstance(error, StoreError):
            error.args = (f"{error}. {words}",)
        raise
    await callers.fetch(f"RELEASE SAVEPOINT {_NAME}")


async def _callers_connection(connection: Any, schema: str, translated: Translate) -> CallersConnection:
    try:
        return CallersConnection(await sender(connection), schema, translated)
    except StoreError:
        raise
    except Exception as error:
        # SQLAlchemy keeps what the driver raised in `orig`.
        told = translated(getattr(error, "orig", None) or error)
        told.args = (f"{told}. {_UNUSABLE}",)
        raise told from error


async def _is_undone(callers: CallersConnection) -> bool:
    try:
        await callers.fetch(f"ROLLBACK TO SAVEPOINT {_NAME}")
        await callers.fetch(f"RELEASE SAVEPOINT {_NAME}")
    except StoreError:
        return False
    return True
