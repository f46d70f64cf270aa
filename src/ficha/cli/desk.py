"""Where a command meets the database: an application's operations, with nothing of its own going on beside them.

Opening a `Ficha` declares its pools and begins to sweep. A command that somebody types does neither: it may run an old
copy of the application, or none at all, beside the processes that know better.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from ..app import Ficha
from ..declarations import NAME_LENGTH
from ..operations import Beside
from ..store.base import StoreError
from .loading import DEFAULT_APP, Absent, NotLoaded, load
from .output import note, printable

T = TypeVar("T")
Needs = Literal["database", "settings", "tools"]
"""What of the application a command needs: only to know its database, also its plans and times, or its tools too."""

Desk = Beside
"""What a command works with."""


def at_desk(
    app: str | None,
    database: str | None,
    work: Callable[[Desk], Awaitable[T]],
    *,
    needs: Needs = "database",
    acts: bool = False,
    creates: bool = False,
) -> T:
    """Runs the work of a command to its end.

    acts: it changes something by the application's settings, so it is said when they are not known.
    creates: an embedded database that is not there yet is made.
    """
    found, why_plain = application(app, database, needs)
    if acts and why_plain is not None:
        note(f"{why_plain}, so the standard settings were used; name your application with --app or FICHA_APP")

    async def run() -> T:
        if found.database.startswith("memory:"):
            raise StoreError("a memory: database ends with its process; name a file or a PostgreSQL database")
        async with found.lifeline(sweeps=False, creates=creates) as desk:
            return await work(desk.acting(operator()))

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
    if needs == "database" and database is not None:
        return _plain(database), "only the database was named"
    try:
        found = load(app or DEFAULT_APP)
    except Absent as absent:
        if app is not None or needs == "tools":
            raise NotLoaded(f"{absent}; name your application with --app module:attribute or FICHA_APP") from None
        return _plain(database), str(absent)
    except NotLoaded as error:
        if needs == "database" and app is None:
            raise NotLoaded(f"{error} (to do without it, name the database with --database)") from error
        raise
    if database is not None:
        found.database = database
    return found, None


def _plain(database: str | None) -> Ficha:
    try:
        return Ficha(database)
    except ValueError as error:  # A setting in the environment that makes no sense.
        raise NotLoaded(str(error)) from error


def database_of(app: str | None, database: str | None) -> str:
    """The URL of the database that a command is for."""
    return application(app, database, "database")[0].database
