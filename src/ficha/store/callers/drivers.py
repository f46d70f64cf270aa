"""The connections that `connection=` takes: how statements are sent over each, and the errors for all other objects.

Statements have `$1`, `$2`, … for their parameters, and rows come back as tuples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..base import StoreError

if TYPE_CHECKING:
    import psycopg

Send = Callable[[str, Sequence[Any]], Awaitable[list[Any]]]
"""Sends a statement with its parameters, and returns the rows, if it has any."""

_LIBRARIES: Final = ("asyncpg", "psycopg", "sqlalchemy", "django")
_BEGIN: Final = "this connection is not in a transaction; begin one, and commit it afterwards"
_CLOSED: Final = "this connection is closed; nothing was changed"
_TAKEN: Final = (
    "connection= takes an asyncpg or psycopg 3 connection, or an AsyncSession or AsyncConnection of SQLAlchemy on one "
    "of these drivers, not {kind}; nothing was changed"
)
_TAKEN_SYNC: Final = (
    "connection= of SyncFicha takes a psycopg 3 connection, a Session or Connection of SQLAlchemy on psycopg, or "
    "Django's connection, not {kind}; nothing was changed"
)


async def sender(connection: Any) -> Send:
    """Returns the function that sends statements over a connection whose transaction is open."""
    library = _library(connection)
    names = _names(connection)
    if library == "asyncpg" and hasattr(connection, "is_in_transaction"):
        return _over_asyncpg(connection)
    if library == "psycopg" and "AsyncConnection" in names:
        return _over_async_psycopg(connection)
    if library == "psycopg" and "Connection" in names:
        return _over_psycopg(connection)
    if library == "sqlalchemy":
        if names & {"AsyncSession", "async_scoped_session"}:
            connection, names = await connection.connection(), {"AsyncConnection"}
        if "AsyncConnection" in names:
            # Begins both SQLAlchemy's transaction and the driver's, which would otherwise begin with a statement that
            # SQLAlchemy sends itself.
            await connection.exec_driver_sql("SELECT 1")
            found = (await connection.get_raw_connection()).driver_connection
            if _library(found) in ("asyncpg", "psycopg"):
                return await sender(found)
            raise StoreError(_TAKEN.format(kind=f"SQLAlchemy on {connection.dialect.driver}"))
    raise StoreError(_TAKEN.format(kind=_kind(connection)))


def driver_connection(connection: Any) -> Any:
    """Returns the psycopg connection behind the connection object of synchronous code.

    To be called on the caller's own thread: some of these objects stand for another connection on each thread.
    """
    found = connection
    match _library(found):
        case "sqlalchemy" if _names(found) & {"Session", "scoped_session"}:
            return driver_connection(found.connection())
        case "sqlalchemy" if "Connection" in _names(found):
            # SQLAlchemy would not commit a transaction that it did not begin.
            found.exec_driver_sql("SELECT 1")
            found = found.connection.driver_connection
        case "django":
            found.ensure_connection()
            found = found.connection
    if _library(found) == "psycopg" and "Connection" in _names(found):
        return found
    behind = "" if found is connection else f" on {_kind(found)}"
    raise StoreError(_TAKEN_SYNC.format(kind=f"{_kind(connection)}{behind}"))


def _over_asyncpg(connection: Any) -> Send:
    if connection.is_closed():
        raise StoreError(_CLOSED)
    if not connection.is_in_transaction():
        raise StoreError(_BEGIN)

    async def send(statement: str, values: Sequence[Any]) -> list[Any]:
        found: list[Any] = await connection.fetch(statement, *values)
        return found

    return send


def _over_async_psycopg(connection: psycopg.AsyncConnection[Any]) -> Send:
    from psycopg import AsyncRawCursor
    from psycopg.rows import tuple_row

    _check_psycopg(connection)

    async def send(statement: str, values: Sequence[Any]) -> list[Any]:
        async with AsyncRawCursor(connection, row_factory=tuple_row) as cursor:
            # Only records in the binary format tell the types of their columns.
            await cursor.execute(statement, values, binary=True)
            return await cursor.fetchall() if cursor.description else []

    return send


def _over_psycopg(connection: psycopg.Connection[Any]) -> Send:
    from psycopg import RawCursor
    from psycopg.rows import tuple_row

    _check_psycopg(connection)

    def run(statement: str, values: Sequence[Any]) -> list[Any]:
        with RawCursor(connection, row_factory=tuple_row) as cursor:
            cursor.execute(statement, values, binary=True)
            return cursor.fetchall() if cursor.description else []

    async def send(statement: str, values: Sequence[Any]) -> list[Any]:
        # A statement may wait for a lock, and must not stop the event loop meanwhile.
        return await asyncio.to_thread(run, statement, values)

    return send


def _check_psycopg(connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """Refuses a connection over which a call cannot be made, or not within a transaction of the caller's. Without
    autocommit, psycopg begins one with the first statement, and the caller has to commit it."""
    if connection.info.pipeline_status.name != "OFF":
        raise StoreError(
            "this connection is in pipeline mode, which gives no answer until later; make the call outside of "
            "`with connection.pipeline():`, in the same transaction"
        )
    status = connection.info.transaction_status.name
    if status == "IDLE" and connection.autocommit:
        raise StoreError(_BEGIN)
    if status == "INERROR":
        raise StoreError("the transaction of this connection has failed; roll it back, and begin another one")
    if connection.closed:
        raise StoreError(_CLOSED)


def _library(connection: Any) -> str | None:
    """The library that the object's class, or one of its base classes, belongs to."""
    packages = (kind.__module__.partition(".")[0] for kind in type(connection).__mro__)
    return next((package for package in packages if package in _LIBRARIES), None)


def _names(connection: Any) -> set[str]:
    return {kind.__name__ for kind in type(connection).__mro__}


def _kind(connection: Any) -> str:
    kind = type(connection)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
