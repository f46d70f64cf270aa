"""Where a command meets the data: an application's operations on its database, with nothing of its own going on beside
them; or a server's, over HTTP. To the command they are the same.

Opening a `Ficha` declares its pools and begins to sweep. A command that somebody types does neither: it may run an old
copy of the application, or none at all, beside the processes that know better.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from ..app import Ficha
from ..declarations import NAME_LENGTH
from ..operations import BoundOperations
from ..store.base import StoreError
from .loading import DEFAULT_APP, Absent, AppNotLoaded, load
from .options import UsageError
from .output import note, printable

if TYPE_CHECKING:
    from ..client import AsyncClient

T = TypeVar("T")
Needs = Literal["database", "settings", "tools"]
"""What of the application a command needs: only to know its database, also its plans and times, or its tools too."""

Backend: TypeAlias = "BoundOperations | AsyncClient"
"""What a command works with."""

SERVER_PAGE: Final = 100
"""How much of a list a server is asked for at once."""
TRIES: Final = 5
"""How often a server is asked before a person is told that it is away: a few seconds."""


def on_backend(
    app: str | None,
    database: str | None,
    work: Callable[[Backend], Awaitable[T]],
    *,
    needs: Needs = "database",
    acts: bool = False,
    creates: bool = False,
) -> T:
    """Runs the work of a command to its end, at the server that is meant, or else at the database.

    acts: it changes something by the application's settings, so it is said when they are not known.
    creates: an embedded database that is not there yet is made.
    """
    server = server_of(database)
    if server is None:
        return on_database(app, database, work, needs=needs, acts=acts, creates=creates)
    # Imported only here: it takes as long as all the rest.
    from ..client import AsyncClient, Retries, ServerError

    async def run() -> T:
        try:
            client = AsyncClient(server, retries=Retries(tries=TRIES))
        except ValueError as error:
            raise ServerError(str(error)) from None
        async with client:
            return await work(client)

    return asyncio.run(run())


def server_of(database: str | None) -> str | None:
    """The server that a command is for; None if it is for a database. What is typed stands above the environment."""
    if database is None:
        return os.environ.get("FICHA_URL") or None
    return database if database.startswith(("http://", "https://")) else None


def page_items(backend: Backend) -> int:
    """How much of a list can be asked for at once."""
    return backend.limits.page_items if isinstance(backend, BoundOperations) else SERVER_PAGE


def check_account(account: str | None, database: str | None, parameter: str) -> None:
    """Who pays need only be left unsaid to a server, which knows whose key it is."""
    if account is None and server_of(database) is None:
        raise UsageError(f"Missing {parameter}")


async def account_or_own(backend: Backend, account: str | None) -> str:
    """The account that is meant: the one named, or that of the key."""
    if account is not None:
        return account
    assert not isinstance(backend, BoundOperations)
    return (await backend.account()).id


def on_database(
    app: str | None,
    database: str | None,
    work: Callable[[BoundOperations], Awaitable[T]],
    *,
    needs: Needs = "database",
    acts: bool = False,
    creates: bool = False,
) -> T:
    """The same for a command that needs the database itself."""
    found, why_plain = application(app, database, needs)
    if acts and why_plain is not None:
        note(f"{why_plain}, so the standard settings were used; name your application with --app or FICHA_APP")

    async def run() -> T:
        if found.database.startswith("memory:"):
            raise StoreError("a memory: database ends with its process; name a file or a PostgreSQL database")
        async with found.lifeline(sweeps=False, creates=creates) as backend:
            return await work(backend.acting(operator()))

    return asyncio.run(run())


def operator() -> str:
    """Who types: the name under which what a command changes is found in the audit log."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # A user id without a name, as containers have them.
        user = "somebody"
    return printable(f"cli {user}@{socket.gethostname()}")[:NAME_LENGTH]


def application(app: str | None, database: str | None, needs: Needs) -> tuple[Ficha, str | None]:
    """The application that a command is for, with its database; and if it is only a plain one, why."""
    _check_database(app, database, needs)
    if needs == "database" and database is not None:
        return _plain(database), "only the database was named"
    try:
        found = load(app or DEFAULT_APP)
    except Absent as absent:
        if app is not None or needs == "tools":
            raise AppNotLoaded(f"{absent}; name your application with --app module:attribute or FICHA_APP") from None
        return _plain(database), str(absent)
    except AppNotLoaded as error:
        if needs == "database" and app is None:
            raise AppNotLoaded(f"{error} (to do without it, name the database with --database)") from error
        raise
    if database is not None:
        found.database = database
    return found, None


def _check_database(app: str | None, database: str | None, needs: Needs) -> None:
    """That a database is meant. A server in the environment alone is in the way only of a command that would otherwise
    take some file at hand for the server's data; an application names its database itself."""
    server = server_of(database)
    if server is None:
        return
    named = app or os.environ.get("FICHA_DATABASE_URL") or needs == "tools"
    if database is not None or not named:
        raise StoreError(f"{server} is a server, and this needs the database itself; name that with --database")


def _plain(database: str | None) -> Ficha:
    try:
        return Ficha(database)
    except ValueError as error:  # A setting in the environment that makes no sense.
        raise AppNotLoaded(str(error)) from error


def database_of(app: str | None, database: str | None) -> str:
    """The URL of the database that a command is for."""
    return application(app, database, "database")[0].database
