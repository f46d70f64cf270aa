"""Turns errors of the database and the driver into the store's errors, which say what happened and what to do."""

from __future__ import annotations

from typing import Final

import asyncpg

from ..base import (
    Committed,
    CommitUnknown,
    DiskFull,
    LockHeld,
    ReadOnly,
    SchemaChanged,
    SchemaMismatch,
    StoreError,
    Transient,
    Unavailable,
)
from ..keyed.tables import KEYED

_CONFLICTS: Final = {
    "40001": "the transaction conflicts with a concurrent one",
    "40P01": "a deadlock with another transaction was broken",
    "57014": "the statement took too long and was cancelled",
}
_GONE: Final = {
    "53300": "the database has no connection left; lower pool_size or committers, or raise max_connections",
    "57P01": "the database closed the connection",
    "57P02": "the database crashed and is recovering",
    "57P03": "the database is starting or shutting down",
}
_REFUSES_WRITES: Final[dict[str, tuple[type[Unavailable], str]]] = {
    "25006": (ReadOnly, "the database is read-only; this may be a standby"),
    "53100": (DiskFull, "the database's disk is full; make room or enlarge it, no restart is needed"),
}
_GONE_CLASSES: Final = ("08", "53", "57P", "58", "25P")
"""Connection errors, lack of resources, an operator's action, system errors, and time-outs that end a connection."""

_RACES: Final = (
    *("account_ids_pkey", "contents_pkey", "entries_pkey", "keys_pkey"),
    *(f"{table.name}_pkey" for table in KEYED.values()),
    *("pools_pkey", "reservations_pkey", "steps_pkey"),
)
"""Keys that two transactions may insert at once, because a row that does not exist yet cannot be locked. A new account
comes with its first entry, which the database may insert first."""


def translated(error: Exception) -> StoreError:
    """The store's error for an error of a statement or of connecting; also psycopg's, on a caller's connection."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, asyncpg.InvalidCachedStatementError | asyncpg.OutdatedSchemaCacheError) or is_outdated(error):
        return SchemaChanged("the schema changed while this process was using it; run it again")
    if (state := getattr(error, "sqlstate", None)) is not None:
        return _by_state(error, state)
    if is_lost(error) or type(error).__name__ == "OperationalError":
        return Unavailable(f"the database cannot be reached ({_words(error)}); check that it runs, and its address")
    return StoreError(f"the database driver refused: {_words(error)}")


def _by_state(error: Exception, state: str) -> StoreError:
    said = f"{_words(error)} [{state}]"
    if state == "55P03":
        return LockHeld(f"another transaction held a lock for too long; nothing was kept, run it again: {said}")
    if state in _CONFLICTS:
        return Transient(f"{_CONFLICTS[state]}; nothing was kept, run it again: {said}")
    if state == "23505" and getattr(getattr(error, "diag", error), "constraint_name", None) in _RACES:
        return Transient(f"another transaction inserted the same row first; nothing was kept, run it again: {said}")
    if state in _REFUSES_WRITES:
        kind, words = _REFUSES_WRITES[state]
        return kind(f"{words}: {said}")
    if state in _GONE:
        return Unavailable(f"{_GONE[state]}: {said}")
    if state.startswith(_GONE_CLASSES):
        return Unavailable(f"the database cannot be used now: {said}")
    if state in ("42P01", "42703", "3F000"):
        return SchemaMismatch(
            f"a table or column is missing, which `ficha migrate up` would make; check the schema's name too: {said}"
        )
    if state in ("26000", "42P05"):
        return StoreError(
            f"a prepared statement was lost between this process and the database: {said}. "
            "Behind a pooler in transaction mode, add ficha_prepared=off to the database's URL."
        )
    return StoreError(f"the database refused: {said}")


def after_commit(error: Exception, attempt: Committed | None = None) -> StoreError:
    """The store's error for an error of COMMIT. Only an answer of the database proves that nothing was kept, and one
    with which the server itself goes down proves nothing."""
    told = translated(error)
    answered = isinstance(error, asyncpg.PostgresError) and not _ends_session(error)
    if answered or not isinstance(told, Unavailable):
        return told
    return CommitUnknown(
        f"the connection was lost while committing, so the outcome is unknown: {_words(error)}", attempt
    )


def is_outdated(error: BaseException) -> bool:
    """Whether the columns of a table changed after the connection was made (see `Layout`)."""
    state = getattr(error, "sqlstate", "")
    return state == "42P10" or (state == "22P02" and "record literal" in str(error))


def is_lost(error: BaseException) -> bool:
    """Whether the connection that raised this can no longer be used."""
    if is_outdated(error):
        return True
    if isinstance(error, asyncpg.ClientConfigurationError):
        return False
    if isinstance(error, asyncpg.PostgresError):
        # A server that became read-only is left: another host of the URL may be the primary now.
        return _ends_session(error) or error.sqlstate == "25006"
    if isinstance(error, asyncpg.InterfaceError):
        return "closed" in str(error) or "released" in str(error)
    # InternalClientError: the driver's state is inconsistent, for example after a message on an idle connection.
    return isinstance(error, OSError | TimeoutError | EOFError | asyncpg.InternalClientError)


def _ends_session(error: asyncpg.PostgresError) -> bool:
    is_last = getattr(error, "severity_en", None) in ("FATAL", "PANIC")
    return is_last or (error.sqlstate or "").startswith(("08", "57P", "25P"))


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
