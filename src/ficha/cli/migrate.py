"""`ficha migrate`: migrates the database's schema up and down, or prints the SQL for another tool."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ..app import Ficha
from ..engine.write_probe import live_server
from ..operations import BoundOperations
from ..store.base import SchemaMismatch
from ..store.connect import broken_indexes, migrator_for, roles_that_write
from ..store.database_url import hidden
from ..store.migrations import (
    DEFAULT_WAIT,
    LockWait,
    Migration,
    Migrator,
    SchemaState,
    half_done,
    listing,
    refuse_newer,
    script,
)
from .backend import application, page_items
from .options import App, AsJson, Database, ErrorForm
from .output import data, echo, failure, note, printable, text

app = typer.Typer(help="Migrate the database's schema.", no_args_is_help=True)

Target = Annotated[int | None, typer.Option("--to", min=0, help="The version to go to.")]
LockTimeout = Annotated[
    float,
    typer.Option(
        "--lock-timeout", min=0.01, max=60, help="PostgreSQL: seconds to wait for a lock; others queue behind it."
    ),
]
LockTries = Annotated[
    int, typer.Option("--lock-tries", min=1, max=100_000, help="PostgreSQL: how often to wait for a lock, in all.")
]


@app.command()
def up(
    app: App = None,
    database: Database = None,
    to: Target = None,
    lock_timeout: LockTimeout = DEFAULT_WAIT.timeout_s,
    lock_tries: LockTries = DEFAULT_WAIT.tries,
    as_json: AsJson = False,
) -> None:
    """Migrate the schema to the newest version, or up to --to. Processes of an older release go on working beside it,
    unless a migration is breaking: `ficha migrate status` says which are."""
    found, migrator = _migrator(app, database)
    version = asyncio.run(migrator.version())
    if to is not None and to < version:
        raise typer.BadParameter(f"the database is at version {version} already; use `ficha migrate down --to {to}`")
    _move(migrator, found, _known(migrator, to), LockWait(lock_timeout, lock_tries), as_json)
    _warn(migrator)


@app.command()
def down(
    app: App = None,
    database: Database = None,
    to: Target = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="First write all ledger entries, as JSON lines.")
    ] = None,
    lock_timeout: LockTimeout = DEFAULT_WAIT.timeout_s,
    lock_tries: LockTries = DEFAULT_WAIT.tries,
    as_json: AsJson = False,
) -> None:
    """Undo the last migration, or all above --to. Data that only the newer schema has is lost. It asks while servers
    or workers are alive, which may need what it drops, and before a ledger with entries is dropped."""
    found, migrator = _migrator(app, database)
    state = asyncio.run(migrator.state())
    last = max((row.version for row in state.recorded), default=0)
    before = max((m.number for m in migrator.migrations if m.number < last), default=0)
    target = before if to is None else to
    if target > last:
        known = _known(migrator, target)
        raise typer.BadParameter(f"the database is at version {last}; use `ficha migrate up --to {known}`")
    if target < last and not yes:
        asyncio.run(_ask_of_live(found))
    if target == 0 < last:
        asyncio.run(_let_go(found, yes=yes, export=export))
    _move(migrator, found, target, LockWait(lock_timeout, lock_tries), as_json)


@app.command()
def sql(
    app: App = None,
    database: Database = None,
    start: Annotated[int, typer.Option("--from", min=0, help="The version to start from.")] = 0,
    to: Target = None,
) -> None:
    """Print the SQL from one version to another, for other migration tools. Changes nothing."""
    _, migrator = _migrator(app, database)
    text(script(migrator, start, _known(migrator, to)))


@app.command()
def status(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Show which migrations the database has, which are to come, and which of them stop older releases from working.
    Changes nothing."""
    _, migrator = _migrator(app, database)
    state = asyncio.run(migrator.state())
    newest = migrator.migrations[-1].number
    rows = listing(migrator.migrations, state)
    if as_json:
        data({"version": state.version, "newest": newest, "works": state.works_from <= newest, "migrations": rows})
    else:
        for row in rows:
            echo(f"{row.state:9}  {row.number:04} {row.name} ({row.kind})")
        for advice in _advice(migrator, state):
            echo(advice)
    remedy = "run `ficha migrate up`, which builds it again" if half_done(state) else "drop it, and report this"
    for index in asyncio.run(broken_indexes(migrator)):
        note(f"the index {index} is incomplete and slows writing down, an interrupted run left it: {remedy}")
    _warn(migrator)


def _advice(migrator: Migrator, state: SchemaState) -> Iterator[str]:
    """What to do, a sentence each."""
    migrations = migrator.migrations
    try:
        refuse_newer("the database", state, migrations)
    except SchemaMismatch as error:
        yield str(error)
        return
    if (half := half_done(state)) is not None:
        yield (
            f"migration {half.version} is half done: {half.steps_left} of its steps have not run. "
            "`ficha migrate up` goes on with it, `ficha migrate down` undoes it"
        )
    pending = [migration for migration in migrations if migration.number not in state.complete]
    if any(migration.kind == "breaking" and migration.number > 1 for migration in pending):
        yield "a breaking migration is to come: stop all processes first, run `ficha migrate up`, start the new release"
    elif pending:
        yield "run `ficha migrate up`"
    elif state.version > migrations[-1].number:
        yield f"a newer release made version {state.version}; this one works with it"


def _migrator(app: str | None, database: str | None) -> tuple[Ficha, Migrator]:
    found, _ = application(app, database, "database")
    return found, migrator_for(found.database, found.schema)


def _known(migrator: Migrator, to: int | None) -> int:
    newest = migrator.migrations[-1].number
    if to is not None and to > newest:
        raise typer.BadParameter(f"there is no version {to}; the newest is {newest}")
    return newest if to is None else to


def _move(migrator: Migrator, app: Ficha, target: int, lock_wait: LockWait, as_json: bool) -> None:
    applied = asyncio.run(migrator.migrate(target, note, lock_wait))
    version = asyncio.run(migrator.version())
    if as_json:
        data({"applied": [migration.number for migration in applied], "version": version})
        return
    for migration in applied:
        echo(f"done  {_label(migration)}")
    echo(f"{hidden(app.database)} is at version {version}")


def _warn(migrator: Migrator) -> None:
    """Warns of other roles that may write the tables, and so a balance."""
    for role in asyncio.run(roles_that_write(migrator)):
        note(f"the role {role} may write Ficha's tables, balances too: unless your application is that role, revoke it")


async def _ask_of_live(app: Ficha) -> None:
    """Returns if the schema may be taken from the processes that are alive, if any."""
    try:
        async with app.separate_operations(sweeps=False, creates=False) as backend:
            found = (await backend.workers(limit=page_items(backend))).items
            server = await live_server(backend.engine)
    except SchemaMismatch:
        # Half done, or of a newer release: no process of this release works on it.
        return
    live = [] if server is None else [f"a server on {server}"]
    live += [f"worker {worker.name} ({worker.version})" for worker in found if worker.state == "alive"]
    if not live:
        return
    named = printable(", ".join(live[:5]) + (f" and {len(live) - 5} more" if len(live) > 5 else ""))
    if not sys.stdin.isatty():
        raise _refused(
            f"processes are alive and may need what would be dropped: {named}. Stop all servers and workers first, or "
            "add --yes if they are of an older release; nothing was changed"
        )
    if not typer.confirm(f"processes are alive and may need what is dropped: {named}. Go on?", err=True):
        raise _refused("nothing was changed")


async def _let_go(app: Ficha, *, yes: bool, export: Path | None) -> None:
    """Returns if the ledger may be dropped."""
    if yes and export is None:
        return
    async with app.separate_operations(sweeps=False, creates=False) as backend:
        if await anext(_entries(backend), None) is None:
            return
        if not yes and not sys.stdin.isatty():
            raise _refused(
                "the ledger has entries, and all of it would be lost: add --yes, and --export FILE to keep a copy"
            )
        if export is not None:
            await _write_out(backend, export)
        if not yes and not typer.confirm(
            f"{printable(hidden(app.database))}: drop all tables, and the ledger with its entries?"
            + ("" if export is not None else " (--export FILE keeps a copy)"),
            err=True,
        ):
            raise _refused("nothing was changed")


def _refused(message: str) -> typer.Exit:
    failure("INVALID_STATE", message, as_json=ErrorForm.as_json)
    return typer.Exit(1)


async def _write_out(backend: BoundOperations, file: Path) -> None:
    """Writes every entry of the ledger to a new file, which is synced to the disk on return."""
    count = 0
    try:
        with open(file, "xb") as out:  # noqa: ASYNC230 (nobody else waits in this process)
            async for entry in _entries(backend):
                out.write(msgspec.json.encode(entry) + b"\n")
                count += 1
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise _refused(f"the ledger cannot be written to {file} ({error.strerror}); nothing was changed") from error
    note(f"{count} ledger entries are in {file}")


async def _entries(backend: BoundOperations) -> AsyncIterator[dict[str, Any]]:
    """The ledger, account by account, each from its newest entry back."""
    most, after = backend.limits.page_items, None
    while True:
        accounts = await backend.accounts(after=after, limit=most)
        for account in accounts.items:
            before = None
            while True:
                page = await backend.ledger(account.id, before=before, limit=most)
                for entry in page.items:
                    yield {"account": account.id, **msgspec.to_builtins(entry)}
                if (before := page.next) is None:
                    break
        if (after := accounts.next) is None:
            return


def _label(migration: Migration) -> str:
    return f"{migration.number:04} {migration.name}"
