"""A copy of the package gets a field, a table and a query in the files that CONTRIBUTING.md lists, and works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

FIELD = {
    "core/records/jobs.py": [("    trace_context: str | None = None", "    region: str | None = None\n")],
    "requests.py": [
        ("    session: str | None\n    run_at: datetime | None\n", "    region: str | None\n"),
        ("    session: Name | None = None", "    region: Name | None = None\n"),
        ("    session: str | None\n    correlation_id: str | None\n    trace_context", "    region: str | None\n"),
        (
            '        "session": arg.optional_name(request.session, "a session"),',
            '        "region": arg.optional_name(request.region, "a region"),\n',
        ),
    ],
    "engine/views/jobs.py": [
        ("    session: str | None", "    region: str | None\n"),
        ("        session=job.spec.session,", "        region=job.spec.region,\n"),
    ],
}
"""file → lines before which something is added, and what"""
FIELD_FILES = {
    f"store/{store}/migrations/0900_region.{way}.sql": text
    for store, table in (("sqlite", "jobs"), ("postgres", "ficha.jobs"))
    for way, text in (
        ("up", f"-- kind: additive\nALTER TABLE {table} ADD COLUMN region text;\n"),
        ("down", f"ALTER TABLE {table} DROP COLUMN region;\n"),
    )
}
"""files that are added; the view, which only people read, is left as it is"""
USE_FIELD = """
import asyncio, sys
from ficha import Ficha
from ficha.store.connect import store_for

async def main():
    for url in sys.argv[1:]:
        if url != "memory:":
            await store_for(url).migrate()
        app = Ficha(url)
        @app.tool()
        async def draw(job, prompt: str) -> None: ...
        async with app:
            await app.open_account("ana")
            receipt = await app.submit("draw", {"prompt": "cats"}, account="ana", region="eu")
            assert (await app.job(receipt.job_id)).region == "eu", url
            batch = await app.submit_batch([("draw", {"prompt": "dogs"})], account="ana", region="us")
            assert {job.region for job in (await app.jobs(batch=batch.batch_id)).items} == {"us"}, url

asyncio.run(main())
"""

TABLE = {
    "core/records/api_keys.py": (
        "class AuditLine(Record, frozen=True):",
        "class Note(Record, frozen=True):\n    id: str\n    account_id: str\n    text: str\n    written_at: int\n\n\n",
    ),
    "core/records/__init__.py": ("from .base import Record", "from .api_keys import Note\n"),
    "core/snapshot.py": ("    audit: list[AuditLine]", "    notes: list[Any] = field(default_factory=list)\n"),
    "core/dataset.py": ("    audit: list[AuditLine]", "    notes: dict[str, Any] = field(default_factory=dict)\n"),
    "store/sql/tables.py": ("AUDIT: Final = table(", 'NOTES: Final = table("notes", r.Note, "id", uuids="id")\n'),
    "store/memory/store.py": (
        "        state.audit += changes.audit",
        "        state.notes.update({note.id: note for note in changes.notes})\n",
    ),
    "store/sqlite/write.py": ('    "audit": _by(insert, t.AUDIT),', '    "notes": _by(insert, t.NOTES),\n'),
    "store/postgres/write.py": ('    "audit": insert("audit_new", t.AUDIT),', '    "notes": insert("n", t.NOTES),\n'),
}
QUERY = {
    "store/base/accounts.py": (
        "class GetAccount(Query[Account | None], frozen=True):",
        "class ListNotes(Query[list[object]], frozen=True):\n"
        "    account_id: str\n    before: str | None = None\n    limit: int = 50\n\n\n",
    ),
    "store/base/__init__.py": ("from .api_keys import ApiKeyList,", "from .accounts import ListNotes\n"),
    "store/questions/pages.py": (
        "    q.ListJobEntries: (t.ENTRIES,",
        '    q.ListNotes: (t.NOTES, "id DESC", (("account_id", "=", "account_id"), ("id", "<", "before"))),\n',
    ),
    "store/memory/reads.py": (
        "    q.GetRevokedApiKeys: _get_revoked_api_keys,",
        "    q.ListNotes: lambda store, query: sorted(\n"
        "        (note for note in store.state.notes.values() if note.account_id == query.account_id\n"
        "         and (query.before is None or note.id < query.before)), key=lambda note: note.id, reverse=True\n"
        "    )[: query.limit],\n",
    ),
}
"""file → the line before which something is added, and what"""

FILES = {
    "store/sqlite/migrations/0900_notes.up.sql": "-- kind: additive\nCREATE TABLE notes (\n"
    "    id TEXT PRIMARY KEY, account_id TEXT, text TEXT, written_at INTEGER\n) STRICT;\n",
    "store/sqlite/migrations/0900_notes.down.sql": "DROP TABLE notes;\n",
    "store/postgres/migrations/0900_notes.up.sql": "-- kind: additive\n"
    "CREATE TABLE ficha.notes (id uuid PRIMARY KEY, written_at timestamptz, account_id text, text text);\n"
    "ALTER TABLE ficha.notes ENABLE ROW LEVEL SECURITY;\n",
    "store/postgres/migrations/0900_notes.down.sql": "DROP TABLE ficha.notes;\n",
}
"""files that are added"""

USE = """
import asyncio, sys
from uuid import uuid4
from ficha.core.needs import Needs
from ficha.core.records import Note
from ficha.core.snapshot import Changes
from ficha.store.base import ListNotes
from ficha.store.connect import store_for

async def main():
    text = "'n' \\\\ \\"more\\""
    notes = [Note(str(uuid4()), account, text, n * 1_000_001) for n, account in enumerate("aabab")]
    mine = sorted((note for note in notes if note.account_id == "a"), key=lambda note: note.id, reverse=True)
    for url in sys.argv[1:]:
        store = store_for(url)
        if url != "memory:":
            await store.migrate()
        await store.open()
        await store.transact(str(uuid4()), 1, Needs(), lambda snapshot: (Changes(notes=notes), []))
        assert await store.read(ListNotes("a")) == mine, url
        assert await store.read(ListNotes("a", mine[0].id, 1)) == mine[1:2], url
        await store.close()

asyncio.run(main())
"""


def test_a_field_of_a_job_is_added_where_contributing_says(tmp_path: Path, postgres_url: str) -> None:
    """Submitted, stored and shown: four files and a migration of each database."""
    copy = PackageCopy(tmp_path)
    for name, additions in FIELD.items():
        for line, addition in additions:
            copy.add(name, line, addition)
    copy.write(FIELD_FILES)
    copy.run(USE_FIELD, "memory:", f"sqlite:///{tmp_path}/ficha.db", postgres_url)


def test_a_table_and_a_query_are_added_where_contributing_says(tmp_path: Path, postgres_url: str) -> None:
    copy = PackageCopy(tmp_path)
    for name, (line, addition) in (*TABLE.items(), *QUERY.items()):
        copy.add(name, line, addition)
    for name in ("core/snapshot.py", "core/dataset.py"):
        copy.add(name, "from msgspec import", "from typing import Any\n\n")
    copy.write(FILES)
    copy.run(USE, "memory:", f"sqlite:///{tmp_path}/ficha.db", postgres_url)


class PackageCopy:
    """A copy of the package, to be changed as a contributor would."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._package = folder / "ficha"
        shutil.copytree(ROOT / "src/ficha", self._package, ignore=shutil.ignore_patterns("__pycache__"))

    def add(self, name: str, line: str, addition: str) -> None:
        """Adds something before a line of a file."""
        text = (self._package / name).read_text()
        assert text.count(line) == 1, f"{name} has another line than {line!r}"
        (self._package / name).write_text(text.replace(line, addition + line))

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self._package / name).write_text(text)

    def run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "PYTHONPATH": str(self._folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_contributing_names_these_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = {
        "### A field of a job": [*FIELD, *FIELD_FILES],
        "### A table": [*TABLE, *FILES],
        "### A query": [*QUERY],
    }
    for heading, files in named.items():
        section = text.split(heading, 1)[1].split("\n### ", 1)[0]
        for name in files:
            starred = name.replace("sqlite/", "*/").replace("postgres/", "*/")
            shown = {name, starred, f"{Path(name).parent}/", f"{Path(starred).parent}/"}
            assert any(f"`{form}`" in section for form in shown), f"{heading} does not name {name}"
