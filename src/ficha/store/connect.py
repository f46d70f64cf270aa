"""Makes the store for a database's URL: the one place that knows which stores there are."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from ..environment import SettingError, setting
from ..extras import needs_extra
from .base import Store, StoreError
from .database_url import ABSENT, hidden, url_problem
from .memory import MemoryStore
from .schema_name import DEFAULT_SCHEMA, schema_problem

if TYPE_CHECKING:
    from .migrations import Migrator
    from .postgres import PostgresStore
    from .sqlite import SqliteStore

FORMS = "sqlite:///file.db, sqlite:////absolute/file.db, postgresql://user@host/database or memory:"


async def connect(url: str, schema: str = DEFAULT_SCHEMA) -> Store:
    """The store for a URL, not yet open. An embedded database is migrated to this release's schema first."""
    store = store_for(url, schema)
    if _scheme(url) == "sqlite":
        await cast("SqliteStore", store).migrate()
    return store


def store_for(url: str, schema: str = DEFAULT_SCHEMA) -> Store:
    """The store for a URL. In PostgreSQL, Ficha's tables are in `schema`; a file and memory are Ficha's alone."""
    if url == ABSENT:
        raise StoreError("a handler's process has no database: name FICHA_DATABASE_URL in its tool's `environment`")
    # A store is imported only when it is used: its driver takes a while, and may not be installed.
    match _scheme(url):
        case "memory":
            return MemoryStore()
        case "sqlite":
            from .sqlite import SqliteStore

            return SqliteStore(_path(url))
        case "postgresql" | "postgres":
            return _postgres(url, schema)
    raise StoreError(f"the database URL {hidden(url)!r} is none of: {FORMS}")


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        # The error would show a part of the URL, and that can be the password.
        raise StoreError(f"the database URL cannot be read; write one of: {FORMS}") from None


def migrator_for(url: str, schema: str = DEFAULT_SCHEMA) -> Migrator:
    """The migrator of the database at a URL."""
    store = store_for(url, schema)
    if isinstance(store, MemoryStore):
        raise StoreError("a memory: database has no schema to migrate")
    return cast("Migrator", store)


async def roles_that_write(migrator: Migrator) -> list[str]:
    """Roles that may write the tables beside their owner; only PostgreSQL has roles."""
    writers: Callable[[], Awaitable[list[str]]] | None = getattr(migrator, "writers", None)
    return [] if writers is None else await writers()


async def broken_indexes(migrator: Migrator) -> list[str]:
    """Indexes that an interrupted migration left incomplete; only PostgreSQL builds indexes while others write."""
    broken: Callable[[], Awaitable[list[str]]] | None = getattr(migrator, "broken_indexes", None)
    return [] if broken is None else await broken()


def _postgres(url: str, schema: str) -> PostgresStore:
    with needs_extra("postgres"):
        from .postgres import PostgresStore

    plain, settings = postgres_settings(url, schema)
    return PostgresStore(plain, **settings)


def postgres_settings(url: str, schema: str) -> tuple[str, dict[str, Any]]:
    """The database's own URL, and the store's settings. Query parameters that begin with `ficha_` are for the store,
    the others for the database."""
    if (problem := url_problem(url)) is not None:
        raise StoreError(
            f"the database URL cannot be read: {problem}; write postgresql://user:password@host/database, with special "
            "characters percent-encoded, such as %2F for /"
        )
    plain, options = _split(url)
    return plain, {"schema": schema, **options, "listen_url": _listen_url(options.get("listen_url"))}


def _listen_url(option: str | None) -> str | None:
    """Where to listen for hints, if not at the database's URL."""
    try:
        url = option or setting(os.environ, "FICHA_LISTEN_URL")
    except SettingError as error:
        raise StoreError(str(error)) from None
    if url is None:
        return None
    if _scheme(url) not in ("postgresql", "postgres") or url_problem(url) is not None:
        where = "FICHA_LISTEN_URL" if option is None else "the option ficha_listen_url of the database URL"
        raise StoreError(f"{where} cannot be read; write postgresql://user:password@host/database")
    # It may be the database's own URL again, with all its options.
    return _split(url)[0]


def _split(url: str) -> tuple[str, dict[str, Any]]:
    """The URL for the database, and the options for the store."""
    parts = urlsplit(url)
    theirs: list[str] = []
    options: dict[str, Any] = {}
    for parameter in parts.query.split("&"):
        name, _, value = parameter.partition("=")
        if not name.startswith("ficha_"):
            theirs.append(parameter)
        elif name in _OPTIONS:
            options[name.removeprefix("ficha_")] = _OPTIONS[name](name, unquote(value))
        else:
            raise StoreError(f"the database URL has an unknown option {name!r}; known are: {', '.join(_OPTIONS)}")
    return urlunsplit(parts._replace(query="&".join(theirs))) if options else url, options


def _switch(name: str, value: str) -> bool:
    if value not in ("on", "off"):
        raise StoreError(f"the option {name} of the database URL is on or off, not {value!r}")
    return value == "on"


def _count(name: str, value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 1_000:
        raise StoreError(f"the option {name} of the database URL is a number from 1 to 1000, not {value!r}")
    return int(value)


def _text(name: str, value: str) -> str:
    if not value:
        raise StoreError(f"the option {name} of the database URL is empty")
    return value


def _schema(name: str, value: str) -> str:
    if (problem := schema_problem(value)) is not None:
        raise StoreError(f"the option {name} of the database URL: {problem}")
    return value


_OPTIONS: Final[dict[str, Callable[[str, str], Any]]] = {
    "ficha_schema": _schema,
    "ficha_prepared": _switch,
    "ficha_optimistic": _switch,
    "ficha_listen_url": _text,
    "ficha_committers": _count,
    "ficha_pool_size": _count,
}


def kind_of(url: str) -> Literal["memory", "sqlite", "postgresql"]:
    """Which kind of database a URL names."""
    match _scheme(url):
        case "memory" | "sqlite" | "postgresql" as known:
            return known
        case "postgres":
            return "postgresql"
    raise StoreError(f"the database URL {hidden(url)!r} is none of: {FORMS}")


def sqlite_file(url: str) -> str:
    """The absolute path of the file that an `sqlite:` URL names."""
    return os.path.abspath(_path(url))


def _path(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path == url or not path:
        raise StoreError(
            f"the database URL {hidden(url)!r} names no file; write sqlite:///file.db or sqlite:////absolute/file.db"
        )
    return unquote(path)
