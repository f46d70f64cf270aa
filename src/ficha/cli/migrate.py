"""`ficha migrate`: the database's schema, up and down, or as SQL for another tool."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from ..store.connect import hidden, migrator_for, row_level_security_for
from ..store.migrations import Migration, Migrator, path, script
from .output import DATABASE, AsJson, Database, data, text, words

app = typer.Typer(help="Change the database's schema.", no_args_is_help=True)

Target = Annotated[int | None, typer.Option("--to", min=0, help="The version to go to.")]


@app.command()
def up(database: Database = DATABASE, to: Target = None, as_json: AsJson = False) -> None:
    """Bring the schema to the newest version, or up to --to."""
    migrator = migrator_for(database)
    version = asyncio.run(migrator.version())
    if to is not None and to < version:
        raise typer.BadParameter(f"the database is at version {version} already; use `ficha migrate down --to {to}`")
    _move(migrator, database, _known(migrator, to), as_json)


@app.command()
def down(database: Database = DATABASE, to: Target = None, as_json: AsJson = False) -> None:
    """Undo the last migration, or all above --to. Data that only the newer schema holds is lost."""
    migrator = migrator_for(database)
    version = asyncio.run(migrator.version())
    target = max(0, version - 1) if to is None else to
    if target > version:
        raise typer.BadParameter(f"the database is at version {version}; use `ficha migrate up --to {target}`")
    _move(migrator, database, target, as_json)


@app.command()
def sql(
    database: Database = DATABASE,
    start: Annotated[int, typer.Option("--from", min=0, help="The version to start from.")] = 0,
    to: Target = None,
) -> None:
    """Print the SQL from one version to another, for people who use another migration tool. Changes nothing."""
    migrator = migrator_for(database)
    text(script(path(migrator.migrations, start, _known(migrator, to))))


@app.command()
def status(database: Database = DATABASE, as_json: AsJson = False) -> None:
    """Show which version the database has and which there is. Changes nothing."""
    migrator = migrator_for(database)
    version = asyncio.run(migrator.version())
    newest = migrator.migrations[-1].number
    if as_json:
        data({"version": version, "newest": newest})
        return
    for migration in migrator.migrations:
        words(f"{'applied' if migration.number <= version else 'pending'}  {_label(migration)}")
    if version > newest:
        words(f"the database is at version {version}, newer than this release knows: upgrade ficha")
    elif version < newest:
        words("run `ficha migrate up`")


@app.command()
def rls(
    switch: Annotated[str, typer.Argument(metavar="on|off|sql")],
    database: Database = DATABASE,
) -> None:
    """Turn PostgreSQL's row-level security on or off, or print its SQL: for clients that read the database directly."""
    security = row_level_security_for(database)
    if switch == "sql":
        text(security.row_level_security_sql)
    elif switch in ("on", "off"):
        asyncio.run(security.row_level_security(switch == "on"))
        words(f"row-level security is {switch} in {hidden(database)}")
    else:
        raise typer.BadParameter("say on, off or sql")


def _known(migrator: Migrator, to: int | None) -> int:
    newest = migrator.migrations[-1].number
    if to is not None and to > newest:
        raise typer.BadParameter(f"there is no version {to}; the newest is {newest}")
    return newest if to is None else to


def _move(migrator: Migrator, database: str, target: int, as_json: bool) -> None:
    applied = asyncio.run(migrator.migrate(target))
    if as_json:
        data({"applied": [migration.number for migration in applied], "version": target})
        return
    for migration in applied:
        words(f"done  {_label(migration)}")
    words(f"{hidden(database)} is at version {target}")


def _label(migration: Migration) -> str:
    return f"{migration.number:04} {migration.name}"
