"""The population in an SQLite file."""

from __future__ import annotations

import apsw

from ficha.store.sqlite import SqliteStore
from tests.stores.million_rows import Dialect, Population, found, growths, runner, whale

DIALECT = Dialect(
    series="(WITH RECURSIVE t (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM t WHERE n < {0}) SELECT n FROM t) AS s",
    uuid="({0})",
    instant="{0}",
)

INDEXES = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"


async def fill(path: str, population: Population) -> None:
    """A population in a fresh file, as quickly as can be."""
    store = SqliteStore(path)
    await store.migrate()
    await store.open()
    await found(runner(store))
    await store.close()
    db = apsw.Connection(path)
    # A file that is half-way there when the machine goes down is made anew.
    for name, value in {"journal_mode": "OFF", "synchronous": "OFF", "cache_size": -200_000}.items():
        db.pragma(name, value)
    with db:
        indexes = db.execute(INDEXES).fetchall()
        for name, _ in indexes:
            db.execute(f"DROP INDEX {name}")
        for growth in growths(population, DIALECT):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({growth.table})")]
            if growth.table in ("commits", "audit"):
                columns.remove("number")
            db.execute(growth.text(columns, DIALECT))
        db.execute(whale(population))
        for _, text in indexes:
            db.execute(text)
    db.close()
