"""`ficha migrate`: migrates the database's schema up and down, or prints the SQL for another tool."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from ..app import Ficha
from ..store.connect import hidden, migrator_for, roles_that_write
from ..store.migrations import Migration, Migrator, script
from .backend import application
from .options import App, AsJson, Database
from .output import data, echo, note, text

app = typer.Typer(help="Migrate the database's schema.", no_args_is_help=True)

Target = Annotated[int | None, typer.Option("--to", min=0, help="The version to go to.")]


@app.command()
def up(app: App = None, database: Database = None, to: Target = None, as_json: AsJson = False) -> None:
    """Migrate the schema to the newest version, or up to --to."""
    found, migrator = _migrator(app, database)
    version = asyncio.run(migrator.version())
    if to is not None and to < version:
        raise typer.BadParameter(f"the database is at version {version} already; use `ficha migrate down --to {to}`")
    _move(migrator, found, _known(migrator, to), as_json)
    _warn(migrator)


@app.command()
def down(app: App = None, database: Database = None, to: Target = None, as_json: AsJson = False) -> None:
    """Undo the last migration, or all above --to. Data that only the newer schema has is lost."""
    found, migrator = _migrator(app, database)
    version = asyncio.run(migrator.version())
    target = max(0, version - 1) if to is None else to
    if target > version:
        raise typer.BadParameter(f"the database is at version {version}; use `ficha migrate up --to {target}`")
    _move(migrator, found, target, as_json)


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
    """Show the database's version and the newest one. Changes nothing."""
    _, migrator = _migrator(app, database)
    version = asyncio.run(migrator.version())
    newest = migrator.migrations[-1].number
    if as_json:
        data({"version": version, "newest": newest})
    else:
        for migration in migrator.migrations:
            echo(f"{'applied' if migration.number <= version else 'pending'}  {_label(migration)}")
        if version > newest:
            echo(f"the database is at version {version}, newer than this release knows: upgrade ficha")
        elif version < newest:
            echo("run `ficha migrate up`")
    _warn(migrator)


def _migrator(app: str | None, database: str | None) -> tuple[Ficha, Migrator]:
    found, _ = application(app, database, "database")
    return found, migrator_for(found.database, found.schema)


def _known(migrator: Migrator, to: int | None) -> int:
    newest = migrator.migrations[-1].number
    if to is not None and to > newest:
        raise typer.BadParameter(f"there is no version {to}; the newest is {newest}")
    return newest if to is None else to


def _move(migrator: Migrator, app: Ficha, target: int, as_json: bool) -> None:
    applied = asyncio.run(migrator.migrate(target))
    if as_json:
        data({"applied": [migration.number for migration in applied], "version": target})
        return
    for migration in applied:
        echo(f"done  {_label(migration)}")
    echo(f"{hidden(app.database)} is at version {target}")


def _warn(migrator: Migrator) -> None:
    """Somebody who can write the tables can write a balance."""
    for role in asyncio.run(roles_that_write(migrator)):
        note(f"the role {role} may write Ficha's tables, balances too: unless your application is that role, revoke it")


def _label(migration: Migration) -> str:
    return f"{migration.number:04} {migration.name}"
