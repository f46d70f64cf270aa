"""Migrates a database with the steps in a file, to be killed meanwhile."""

import asyncio
import sys
from pathlib import Path

from ficha.store.connect import migrator_for
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from tests.upgrades.later_release import with_steps

if __name__ == "__main__":
    url, file = sys.argv[1:]
    store = migrator_for(url)
    assert isinstance(store, PostgresStore | SqliteStore)
    asyncio.run(with_steps(store, Path(file).read_text()).migrate())
