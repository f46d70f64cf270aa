"""What a command works on: an application's operations on its database, or a server's over HTTP. To most commands they
are the same.

Opening a `Ficha` declares its pools and starts its sweeper. A command does neither: it may have an old copy of the
application, or none, and must not override the processes that run beside it.
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
from ..store.database_url import hidden
from .load_app import DEFAULT_APP, Absent, AppNotLoaded, load
from .options import UsageError
from .output import note, printable

if TYPE_CHECKING:
    from ..client import AsyncClient

T = TypeVar("T")
Needs = Literal["database", "settings", "tools"]
"""What a command needs of the application: its database only, its plans and times too, or also its tools."""

Backend: TypeAlias = "BoundOperations | AsyncClient"
"""The operations of a command: on a database, or of a server."""

SERVER_PAGE: Final = 100
"""How many items of a list are requested from a server at once."""
TRIES: Final = 5
"""How many attempts are made to reach a server: a few seconds."""


def on_backend(
    app: str | None,
    database: str | None,
    work: Callable[[Backend], Awaitable[T]],
    *,
    needs: Needs = "database",
    acts: bool = False,
    creates: bool = False,
) -> T:
    """Runs a command's work on the chosen server, or else on the database.

    acts: it changes something by the application's settings, so a note is printed if they are not known.
    creates: creates an embedded database that does not exist.
    """
    server = server_of(database)
    if server is None:
        return on_database(app, database, work, needs=needs, acts=acts, creates=creates)
    # Only here: its import takes as long as all the rest.
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
    """The server that a command is for; None if it is for a database. The option takes precedence over FICHA_URL."""
    if database is None:
        return os.environ.get("FICHA_URL") or None
    return database if database.startswith(("http://", "https://")) else None


def page_items(backend: Backend) -> int:
    """How many items of a list can be requested at once."""
    return backend.limits.page_items if isinstance(backend, BoundOperations) else SERVER_PAGE


def check_account(account: str | None, database: str | None, parameter: str) -> None:
    """The account may be left out only for a server, which knows the key's account."""
    if account is None and server_of(database) is None:
        raise UsageError(f"Missing {parameter}")


async def account_or_own(backend: Backend, account: str | None) -> str:
    """The given account, or else that of the key."""
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
    """Runs a command's work on the database."""
    found, why_plain = application(app, database, needs)
    if acts and why_plain is not None:
        note(f"{why_plain}, so the standard settings were used; name your application with --app or FICHA_APP")

    async def run() -> T:
        if found.database.startswith("memory:"):
            raise StoreError("a memory: database exists only in its process; name a file or a PostgreSQL database")
        async with found.separate_operations(sweeps=False, creates=creates) as backend:
            return await work(backend.acting(operator()))

    return asyncio.run(run())


def operator() -> str:
    """The name of the command's user in the audit log."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # A user id without a name, as in containers.
        user = "somebody"
    return printable(f"cli {user}@{socket.gethostname()}")[:NAME_LENGTH]


def application(app: str | None, database: str | None, needs: Needs) -> tuple[Ficha, str | None]:
    """The application of a command, with its database; and if it is one with standard settings, why."""
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
            raise AppNotLoaded(f"{error} (to run without it, name the database with --database)") from error
        raise
    if database is not None:
        found.use_database(database)
    return found, None


def _check_database(app: str | None, database: str | None, needs: Needs) -> None:
    """Refuses a server where a database is needed. FICHA_URL alone is refused only if no database is named either: else
    the command would use the default file instead of the server's data."""
    server = server_of(database)
    if server is None:
        return
    named = app or os.environ.get("FICHA_DATABASE_URL") or needs == "tools"
    if database is not None or not named:
        raise StoreError(f"{hidden(server)} is a server, but this command needs the database; name it with --database")


def _plain(database: str | None) -> Ficha:
    try:
        return Ficha(database)
    except ValueError as error:  # An invalid setting in the environment.
        raise AppNotLoaded(str(error)) from error


def database_of(app: str | None, database: str | None) -> str:
    """The URL of a command's database."""
    return application(app, database, "database")[0].database
