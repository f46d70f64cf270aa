"""Whatever is changed in the schema by hand is found, and what the migrations make is not."""

from __future__ import annotations

from contextlib import closing

import apsw
import asyncpg
import pytest

from ficha.doctor import Finding, looking_at, missing_guards
from tests.doctor.conftest import Deployment


async def schema_findings(own: Deployment) -> list[Finding]:
    return [finding for finding in (await own.report()).findings if finding.group == "schema"]


async def test_a_migrated_database_differs_in_nothing(own: Deployment) -> None:
    """On PostgreSQL this also proves that all of the migrations' text is understood."""
    report = await own.report()
    assert "schema" in report.checked
    assert [finding for finding in report.findings if finding.group == "schema"] == []


BREAKS = (
    ("DROP INDEX jobs_dead", "SCHEMA_PART_MISSING", "warning", "index jobs_dead is missing"),
    ("DROP INDEX entries_once_per_job", "SCHEMA_PART_MISSING", "critical", "unique index entries_once_per_job"),
    ("CREATE INDEX mine ON jobs (tool)", "SCHEMA_PART_ADDED", "note", "mine is none of Ficha's"),
    ("CREATE TABLE notes (id integer)", "SCHEMA_PART_ADDED", "note", "The table notes is none of Ficha's"),
    ("DROP TABLE audit", "SCHEMA_PART_MISSING", "critical", "The table audit is missing"),
    ("DROP VIEW job_states", "SCHEMA_PART_MISSING", "critical", "The view job_states is missing"),
)


async def test_what_was_dropped_or_added_is_named(own: Deployment) -> None:
    await own.execute(*(statement for statement, *_ in BREAKS))
    found = await schema_findings(own)
    for _, code, severity, words in BREAKS:
        assert [one for one in found if (one.code, one.severity) == (code, severity) and words in one.what], words


async def test_a_dropped_trigger_of_the_ledger_is_critical_until_it_is_back(own: Deployment) -> None:
    name = "entries_are_not_changed" if own.kind == "sqlite" else "entries_immutable ON entries"
    await own.execute(f"DROP TRIGGER {name}")
    [finding] = await schema_findings(own)
    assert (finding.code, finding.severity) == ("SCHEMA_PART_MISSING", "critical")
    assert "trigger" in finding.what


CHANGES = (
    (
        "ALTER TABLE entries DISABLE TRIGGER entries_immutable",
        "ALTER TABLE entries ENABLE TRIGGER entries_immutable",
        "SCHEMA_PART_CHANGED",
        "trigger entries.entries_immutable is disabled",
    ),
    (
        "ALTER TABLE jobs DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE jobs ENABLE ROW LEVEL SECURITY",
        "SCHEMA_PART_CHANGED",
        "table jobs is without row-level security",
    ),
    (
        "ALTER TABLE jobs ALTER COLUMN tool DROP NOT NULL",
        "ALTER TABLE jobs ALTER COLUMN tool SET NOT NULL",
        "SCHEMA_PART_CHANGED",
        "column jobs.tool is text, not text not null",
    ),
    (
        "ALTER TABLE jobs RENAME COLUMN plan TO tariff",
        "ALTER TABLE jobs RENAME COLUMN tariff TO plan",
        "SCHEMA_PART_MISSING",
        "column jobs.plan is missing",
    ),
    (
        "CREATE TRIGGER mine BEFORE DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION refuse_entry_change()",
        "DROP TRIGGER mine ON jobs",
        "SCHEMA_PART_ADDED",
        "trigger jobs.mine is none of Ficha's",
    ),
)


@pytest.mark.parametrize("own", ["postgresql"], indirect=True)
async def test_what_was_changed_in_postgresql_is_named_until_it_is_back(own: Deployment) -> None:
    await own.execute(*(broken for broken, *_ in CHANGES))
    found = await schema_findings(own)
    for _, _, code, words in CHANGES:
        assert any(finding.code == code and words in finding.what for finding in found), words
    await own.execute(*(mended for _, mended, _, _ in CHANGES))
    assert await schema_findings(own) == []


@pytest.mark.parametrize("own", ["postgresql"], indirect=True)
async def test_an_index_whose_build_failed_is_named(own: Deployment) -> None:
    await own.execute("INSERT INTO pools VALUES ('a', 1, NULL, false), ('b', 1, NULL, false)")
    with pytest.raises(asyncpg.UniqueViolationError):
        await own.execute("CREATE UNIQUE INDEX CONCURRENTLY torn ON pools (slots)")
    assert "The index torn is not valid" in (await own.findings())["INDEX_INVALID"].what
    await own.execute("DROP INDEX torn")
    assert await schema_findings(own) == []


@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
async def test_a_table_of_sqlite_that_was_changed_is_named(own: Deployment) -> None:
    await own.execute("ALTER TABLE pools ADD COLUMN mine TEXT")
    [finding] = await schema_findings(own)
    assert (finding.code, finding.what) == ("SCHEMA_PART_CHANGED", "The table pools is not what the migrations make.")


async def test_versions_that_do_not_fit_are_told(own: Deployment) -> None:
    table = "schema_migrations" if own.kind == "sqlite" else "migrations"
    await own.execute(f"INSERT INTO {table} (version) VALUES (999)")
    found = await own.findings()
    assert (found["SCHEMA_AHEAD"].severity, "999" in found["SCHEMA_AHEAD"].what) == ("warning", True)
    await own.execute(f"DELETE FROM {table}")
    report = await own.report()
    assert report.findings[0].code == "SCHEMA_MISSING"
    assert report.exit_code == 2


GUARDS_OF_POSTGRESQL = (
    ("ALTER TABLE accounts DROP CONSTRAINT accounts_check", "check of accounts (least balance active"),
    (
        "ALTER TABLE entries DROP CONSTRAINT entries_check; "
        "ALTER TABLE entries ADD CONSTRAINT entries_check CHECK (number >= 1)",
        "check of entries (number >= 1 and balance_after >= 0",
    ),
    (
        "ALTER TABLE commits DROP CONSTRAINT commits_committer_sequence_key",
        "unique constraint of commits (committer sequence)",
    ),
    ("ALTER TABLE keys DROP CONSTRAINT keys_pkey", "primary key keys"),
    (
        "DROP INDEX entries_once_per_job; CREATE UNIQUE INDEX entries_once_per_job ON entries (job_id, kind, number)",
        "unique index entries_once_per_job",
    ),
    ("ALTER TABLE entries DISABLE TRIGGER entries_immutable", "trigger entries.entries_immutable"),
    (
        "CREATE OR REPLACE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN RETURN NULL; END $$",
        "function refuse_audit_change",
    ),
)


@pytest.mark.req("D1")
@pytest.mark.parametrize("own", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("broken", "words"), GUARDS_OF_POSTGRESQL, ids=lambda value: value.split("(")[0][-40:])
async def test_a_guard_of_money_that_is_gone_or_changed_is_critical(own: Deployment, broken: str, words: str) -> None:
    await own.execute(broken)
    critical = [one for one in await schema_findings(own) if one.severity == "critical"]
    assert len(critical) == 1, critical
    assert f"The {words}" in critical[0].what
    async with looking_at(own.app.database, own.app.schema) as database:
        assert await missing_guards(database) == [critical[0].what]


GUARDS_OF_SQLITE = {
    "balance INTEGER NOT NULL CHECK (balance >= 0)": ("balance INTEGER NOT NULL", "check of accounts (balance >= 0)"),
    "CHECK (kind <> 'charge' OR amount <= 0)": ("CHECK (true)", "check of entries (kind <> 'charge' or amount <= 0)"),
}


@pytest.mark.req("D1")
@pytest.mark.parametrize("own", ["sqlite"], indirect=True)
@pytest.mark.parametrize("clause", GUARDS_OF_SQLITE)
async def test_a_guard_of_money_that_left_an_sqlite_table_is_critical(own: Deployment, clause: str) -> None:
    instead, words = GUARDS_OF_SQLITE[clause]
    quoted = [text.replace("'", "''") for text in (clause, instead)]
    db = apsw.Connection(own.url.removeprefix("sqlite:///"))
    with closing(db):
        db.execute("PRAGMA writable_schema = on")
        db.execute(f"UPDATE sqlite_schema SET sql = replace(sql, '{quoted[0]}', '{quoted[1]}')")
    critical = [one for one in await schema_findings(own) if one.severity == "critical"]
    assert [one.what for one in critical] == [f"The {words} is missing."]
    async with looking_at(own.app.database, own.app.schema) as database:
        assert await missing_guards(database) == [critical[0].what]


async def test_nothing_is_said_of_the_guards_of_a_whole_schema(own: Deployment) -> None:
    async with looking_at(own.app.database, own.app.schema) as database:
        assert await missing_guards(database) == []
