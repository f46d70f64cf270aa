"""A small pool of connections, and transactions on them.

A connection keeps no state between transactions: no SET, no advisory lock, no LISTEN. So it may lead to a pooler in
transaction mode, and a connection that was interrupted is simply closed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

import asyncpg

from ...process_name import session_name
from ..base import Committed, CommitUnknown, StoreError, Unavailable
from ..database_url import host_by_host, naming_no_secret
from ..schema_name import DEFAULT_SCHEMA, in_schema
from .errors import after_commit, is_lost, translated

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Connect: TypeAlias = Callable[[], Awaitable[Connection]]

# Plans always use the indexes and are made once. Otherwise a plan made while a table was empty would scan all of it
# after it has grown, until the next ANALYZE; and a plan for each call costs more than the call.
PLANS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_memoize": "off",
    "jit": "off",
}
# With the time-outs the database ends a transaction whose client is gone, so that its marker does not stay locked.
SETTINGS: Final = {
    "lock_timeout": "5s",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "30s",
    **PLANS,
}
BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED; " + "; ".join(
    f"SET LOCAL {name} = '{value}'" for name, value in SETTINGS.items()
)
BEGIN_SET_UP: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""For a connection that was opened with the settings."""
# Queries of several statements read much: there the planner may choose.
BEGIN_READING: Final = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '600s'; "
    + "; ".join(f"SET LOCAL {name} = {'auto' if name == 'plan_cache_mode' else 'on'}" for name in PLANS)
)
_ROLLBACK_S: Final = 5.0
TIMEOUT_S: Final = 60.0
"""How long to wait for a database that does not answer."""
CONNECT_S: Final = 10.0
HOST_S: Final = 3.0
"""How long connecting may take, and to each of several hosts."""


class Connections:
    """A pool of up to `size` connections, made when they are needed.

    patience_s: how long a connection may be in use before it counts as dead and is closed. Defaults to no limit, for
        connections with the driver's own time-out, which costs a timer for each statement.
    """

    def __init__(self, connect: Connect, size: int, *, patience_s: float | None = None) -> None:
        self._connect = connect
        self._patience_s = patience_s
        self._used_since: dict[Connection, float] = {}
        self._watch: asyncio.TimerHandle | None = None
        self._free = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[Connection] = []
        self._is_open = True

    def take(self) -> _Taken:
        """A connection outside any transaction. One that comes back closed or inside a transaction is not kept."""
        return _Taken(self)

    async def get(self) -> Connection:
        """A connection that the caller has to `put` back."""
        if self._free:
            self._free -= 1
        else:
            await self._turn()
        try:
            if not self._is_open:
                raise Unavailable("the store is closed; open it first")
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return self._used(connection)
            with speaking():
                return self._used(await self._connect())
        except BaseException:
            self._pass_on()
            raise

    def _used(self, connection: Connection) -> Connection:
        if self._patience_s is not None:
            self._used_since[connection] = time.monotonic()
            if self._watch is None:
                self._watch_on(self._patience_s)
        return connection

    def _watch_on(self, patience_s: float) -> None:
        """One timer for all connections, which runs as long as any is in use."""
        self._watch = asyncio.get_running_loop().call_later(patience_s / 4, self._give_up, patience_s)

    def _give_up(self, patience_s: float) -> None:
        """Closes connections that have been in use for too long; their callers get an error."""
        self._watch = None
        for connection, since in self._used_since.items():
            if time.monotonic() - since > patience_s:
                connection.terminate()
        if self._used_since:
            self._watch_on(patience_s)

    def put(self, connection: Connection, error: BaseException | None) -> None:
        """Gives back a connection, with the error that its use raised, if any."""
        self._used_since.pop(connection, None)
        if isinstance(error, asyncio.CancelledError):
            # A statement may still be running; the database rolls it back when the connection is closed.
            connection.terminate()
        if connection.is_closed():
            if isinstance(error, Unavailable | CommitUnknown):
                # What broke one connection has most likely broken the others too.
                self._drop_idle()
        elif not self._is_open or connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append(connection)
        self._pass_on()

    async def _turn(self) -> None:
        """Waits for a connection to become free, first come, first served."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        """Closes the idle connections; one in use is closed when it is put back."""
        self._is_open = False
        if self._watch is not None and not self._used_since:
            self._watch.cancel()
        idle, self._idle = self._idle, []
        await asyncio.gather(*map(_part, idle))


class _Taken:
    """A connection for the length of a block. (Every transaction uses it; a generator would take twice as long.)"""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def __aenter__(self) -> Connection:
        self._connection = await self._connections.get()
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._connections.put(self._connection, error)


async def _part(connection: Connection) -> None:
    with suppress(*DRIVER_ERRORS):
        await connection.close(timeout=_ROLLBACK_S)


DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    EOFError,
    ValueError,
)
"""The exceptions of the driver. ValueError: text or a number that no column can hold."""


class speaking:
    """Wraps calls of the driver: turns its errors into the store's, and closes a connection that is lost."""

    __slots__ = ("_connection", "_translated")

    def __init__(
        self, connection: Connection | None = None, translate: Callable[[Exception], StoreError] = translated
    ) -> None:
        self._connection = connection
        self._translated = translate

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, DRIVER_ERRORS):
            if self._connection is not None and is_lost(error):
                self._connection.terminate()
            raise self._translated(error) from error


def committing(connection: Connection, attempt: Committed | None = None) -> speaking:
    """Wraps a commit: raises CommitUnknown if it is not known whether the commit took place."""
    return speaking(connection, partial(after_commit, attempt=attempt))


@asynccontextmanager
async def transaction(connection: Connection, begin: str = BEGIN) -> AsyncIterator[None]:
    """A transaction that is rolled back at the end, unless it was committed."""
    with speaking(connection):
        await connection.execute(begin)
    try:
        yield
    except asyncio.CancelledError:
        connection.terminate()
        raise
    finally:
        await roll_back(connection)


async def commit(connection: Connection, attempt: Committed | None = None) -> None:
    with committing(connection, attempt):
        tag = await connection.execute("COMMIT")
    if tag != "COMMIT":
        raise StoreError(f"the database answered {tag} to COMMIT; nothing was kept")


async def roll_back(connection: Connection) -> None:
    """Rolls back a transaction that is open. If that fails, the connection is closed, which ends it too."""
    if connection.is_closed() or not connection.is_in_transaction():
        return
    try:
        await connection.execute("ROLLBACK", timeout=_ROLLBACK_S)
    except (*DRIVER_ERRORS, asyncio.CancelledError) as error:
        connection.terminate()
        if isinstance(error, asyncio.CancelledError):
            raise


class SettledConnector:
    """Makes connections that have the settings from the start, so that single statements have them too.

    A pooler in transaction mode refuses that: then `is_settled` becomes False, and each transaction sets them itself.
    """

    def __init__(self, url: str, *, schema: str, prepared: bool, writes: bool) -> None:
        # For writing connections, `Connections` has a time-out of its own (`patience_s`).
        timeout_s = None if writes else TIMEOUT_S
        self._plain = connector(url, schema=schema, prepared=prepared, timeout_s=timeout_s)
        # A single statement has no BEGIN, so its isolation level is a setting as well.
        settings = {**(SETTINGS if writes else PLANS), "default_transaction_isolation": "read committed"}
        self._settled = connector(url, schema=schema, prepared=prepared, timeout_s=timeout_s, server_settings=settings)
        self.is_settled = prepared

    @property
    def begin(self) -> str:
        """The statement that begins a transaction that writes."""
        return BEGIN_SET_UP if self.is_settled else BEGIN

    async def __call__(self) -> Connection:
        if self.is_settled:
            try:
                return await self._settled()
            except asyncpg.ProtocolViolationError:
                self.is_settled = False
        return await self._plain()


def connector(url: str, *, schema: str, prepared: bool, timeout_s: float | None = TIMEOUT_S, **options: Any) -> Connect:
    """A function that makes a connection. Without `prepared`, no statement stays prepared after its transaction."""
    if "application_name=" not in url and "PGAPPNAME" not in os.environ:
        # Poolers pass this parameter on, also in transaction mode.
        options["server_settings"] = {"application_name": session_name(), **options.get("server_settings", {})}
    if schema != DEFAULT_SCHEMA:
        options["connection_class"] = connection_in(schema)
    connect = partial(
        _first_that_fits,
        host_by_host(url) if "prefer-standby" not in url else [url],
        command_timeout=timeout_s,
        # A group's statement is long and depends only on which kinds of commands it has, so many texts are cached.
        statement_cache_size=256 if prepared else 0,
        max_cacheable_statement_size=0,
        max_cached_statement_lifetime=0,
        **options,
    )
    return partial(naming_no_secret, url, connect)


async def _first_that_fits(urls: list[str], **options: Any) -> Connection:
    """Tries the hosts of a URL in order, each for its own time: the driver has one for all of them, so a host that
    swallows what is sent to it would keep it from the others."""
    for number, url in enumerate(urls, 1):
        try:
            return await asyncpg.connect(url, timeout=CONNECT_S if len(urls) == 1 else HOST_S, **options)
        except (OSError, TimeoutError, asyncpg.CannotConnectNowError, asyncpg.InternalClientError):
            if number == len(urls):
                raise
    raise AssertionError("a URL has a host")


def connection_in(schema: str) -> Any:
    """A class of connections whose statements use the tables in this schema."""

    def named(method: Callable[..., Any]) -> Any:
        return lambda self, query, *rest, **options: method(self, in_schema(query, schema), *rest, **options)

    methods = {name: named(getattr(asyncpg.Connection, name)) for name in ("execute", "fetch", "fetchrow", "fetchval")}
    return type("SchemaConnection", (asyncpg.Connection,), methods)
