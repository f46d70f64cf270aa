"""Runs the numbered migrations (see `migrations.py`) over a connection of its own."""

from __future__ import annotations

import os
import time

import apsw

from ...base import StoreError
from ...migrations import (
    BOOKKEEPING,
    COLUMNS,
    TABLE,
    Migration,
    Move,
    Recorded,
    SchemaState,
    due_steps,
    goal,
    path,
    refuse_newer,
)
from ...private_file import create_private
from ..connection import Patience, connect, refuse_old_library
from ..errors import translate
from ..filesystem import refuse_network

COLUMNS_KEPT = "SELECT name FROM pragma_table_info('schema_migrations')"
STATE = "SELECT version, name, works_from, steps_left, reached FROM schema_migrations ORDER BY version"


def state_of(db: apsw.Connection) -> SchemaState:
    """Which migrations the database has."""
    # A statement sees what other processes did meanwhile; `table_exists` answers from this connection's cached schema.
    if not db.execute(COLUMNS_KEPT).fetchall():
        return SchemaState()
    return SchemaState(tuple(Recorded(*row) for row in db.execute(STATE)))


def state(file: str, patience: Patience) -> SchemaState:
    """Which migrations the database in a file has. The file may not exist, and is not created."""
    refuse_old_library()
    refuse_network(file)
    if not os.path.exists(file):
        return SchemaState()
    try:
        db = connect(file, patience, read_only=True)
        try:
            return state_of(db)
        finally:
            db.close()
    except apsw.Error as error:
        raise translate(error, file) from error


def migrate(file: str, migrations: tuple[Migration, ...], target: int | None, patience: Patience) -> list[Migration]:
    """Goes to `target`, creating the file if there is none. Each migration and its record are one transaction."""
    version = goal(migrations, target)
    refuse_old_library()
    refuse_network(file)
    if not os.path.exists(file):
        if version == 0:
            return []
        folder = os.path.dirname(file)
        if not os.path.isdir(folder):
            raise StoreError(f"the folder {folder} does not exist: make it first, or check the path of the database")
        create_private(file)
    try:
        db = connect(file, patience)
        try:
            return _run(db, file, migrations, version)
        finally:
            db.close()
    except apsw.Error as error:
        raise translate(error, file) from error


def _run(db: apsw.Connection, file: str, migrations: tuple[Migration, ...], target: int) -> list[Migration]:
    done: list[Migration] = []
    while True:
        pause_s: float | None = None
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have run it while this one waited for the lock.
            _complete_bookkeeping(db)
            found = state_of(db)
            refuse_newer(file, found, migrations)
            moves = path(migrations, found, target)
            if moves:
                db.execute(BOOKKEEPING)
                pause_s = _run_move(db, moves[0], found)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        if not moves:
            return done
        if pause_s is None:
            done.append(moves[0].migration)
        else:
            time.sleep(pause_s)


def _run_move(db: apsw.Connection, move: Move, found: SchemaState) -> float | None:
    """Runs one step of a move up, or one batch of it, or all steps of a move down. If more is left of the move, returns
    how long to leave the lock to others first."""
    due, *others = due_steps(move, found)
    if not move.is_up:
        _execute(db, "\n".join([step.text for step in move.migration.down] + [(others or [due])[-1].done]))
        return None
    if due.step.way != "batches":
        _execute(db, f"{due.step.text}\n{due.done}")
        return 0.0 if others else None
    began = time.monotonic()
    end = db.execute(due.batch_end(due.reached)).get
    _execute(db, due.done if end is None else due.batch(due.reached, end))
    if end is None:
        return 0.0 if others else None
    return time.monotonic() - began


def _execute(db: apsw.Connection, text: str) -> None:
    """Runs all statements; the library runs those after a query only when its rows are read."""
    db.execute(text).fetchall()


def _complete_bookkeeping(db: apsw.Connection) -> None:
    """Adds the columns that the table of migrations lacks if an older release made it."""
    kept = {name for (name,) in db.execute(COLUMNS_KEPT)}
    for name, kind in COLUMNS.items():
        if kept and name not in kept:
            db.execute(f"ALTER TABLE {TABLE} ADD COLUMN {name} {kind}")
