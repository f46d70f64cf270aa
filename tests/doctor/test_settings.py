"""Settings of the application, the file and the server that are dangerous, and what cannot be looked at."""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import asyncpg
import pytest

from ficha import Ficha
from ficha.doctor import DoctorReport, Finding, examine
from ficha.doctor.findings import size
from ficha.doctor.postgres_check import _is_here as is_here
from ficha.engine.process_signs import ProcessSigns
from tests.doctor.conftest import Deployment
from tests.support.postgres import Server

on_sqlite = pytest.mark.parametrize("deployment", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("deployment", ["postgresql"], indirect=True)
own_postgresql = pytest.mark.parametrize("own", ["postgresql"], indirect=True)


async def codes(app: Ficha) -> set[str]:
    return {finding.code for finding in (await examine(app)).findings}


async def test_settings_of_the_application_that_are_missing_or_open_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FICHA_SECRET", raising=False)
    url = f"sqlite:///{tmp_path / 'ficha.db'}"
    assert "SECRET_MISSING" in await codes(Ficha(url))
    monkeypatch.setenv("FICHA_SECRET", "short")
    assert "SECRET_SHORT" in await codes(Ficha(url))
    monkeypatch.setenv("FICHA_SECRET", "")
    monkeypatch.setenv("FICHA_SECRET_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="FICHA_SECRET_FILE"):
        Ficha(url)
    monkeypatch.delenv("FICHA_SECRET_FILE")
    good = {"secret": "qPzR7mWk2vXb9nLs4tYc8hJd3gFa6eUi"}
    assert "SECRET_MISSING" not in await codes(Ficha(url, **good))  # type: ignore[arg-type]
    assert "PUBLIC_URL_NOT_HTTPS" in await codes(Ficha(url, public_url="http://shop.example"))
    assert "PUBLIC_URL_NOT_HTTPS" not in await codes(Ficha(url, public_url="https://shop.example"))
    assert "PUBLIC_URL_NOT_HTTPS" not in await codes(Ficha(url, public_url="http://localhost:8000"))
    assert "LEASE_SHORT" in await codes(Ficha(url, lease_s=10, heartbeat_s=4))


async def test_what_cannot_be_reached_or_looked_at_is_told(tmp_path: Path) -> None:
    for url, code in (
        ("memory:", 3),
        (f"sqlite:///{tmp_path / 'none.db'}", 2),
        (f"postgresql://user:hush@/x?host={tmp_path}", 2),
    ):
        report = await examine(Ficha(url, secret="qPzR7mWk2vXb9nLs4tYc8hJd3gFa6eUi"))  # noqa: S106
        assert ([finding.code for finding in report.findings], report.exit_code) == (["DATABASE_NOT_REACHED"], code)
        assert "hush" not in str(report)
    assert not (tmp_path / "none.db").exists()


def test_the_worst_decides_the_exit_code() -> None:
    for severities, code in (
        ((), 0),
        (("note",), 0),
        (("note", "warning"), 1),
        (("warning", "unchecked"), 3),
        (("unchecked", "critical", "warning"), 2),
    ):
        found = [Finding("g", "C", severity, "what", "do") for severity in severities]  # type: ignore[arg-type]
        assert DoctorReport(database="d", facts={}, checked=[], findings=found, reads=0).exit_code == code
    assert [size(n) for n in (0, 999, 1_500, 25_000_000, 3e12)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "25 MB",
        "3000 GB",
    ]


@on_sqlite
async def test_the_settings_of_an_sqlite_file(deployment: Deployment) -> None:
    path = deployment.url.removeprefix("sqlite:///")
    os.chmod(path, 0o644)
    assert (await deployment.findings())["FILE_OPEN_TO_OTHERS"].severity == "warning"
    os.chmod(path, 0o600)
    await deployment.execute("PRAGMA journal_mode = delete")
    assert "journal mode delete" in (await deployment.findings())["SQLITE_NOT_WAL"].what
    async with deployment.app:
        pass
    assert await deployment.findings() == {}


@on_sqlite
async def test_a_long_wal_is_told_until_the_reader_is_gone(deployment: Deployment) -> None:
    reader = apsw.Connection(deployment.url.removeprefix("sqlite:///"))
    reader.execute("BEGIN; SELECT count(*) FROM accounts").fetchall()
    async with deployment.app as app:
        for n in range(20):
            await app.open_account(f"ana{n}", plan="open")
    assert "WAL_LONG" in await deployment.findings(wal_bytes=10_000)
    assert "WAL_LONG" not in await deployment.findings()
    reader.close()
    async with deployment.app:
        pass
    assert "WAL_LONG" not in await deployment.findings(wal_bytes=10_000)


@on_sqlite
async def test_a_file_that_is_mostly_empty_is_noted_until_it_is_made_smaller(deployment: Deployment) -> None:
    await deployment.execute(
        "CREATE TABLE much AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) "
        "SELECT zeroblob(100000) FROM n",
        "DROP TABLE much",
    )
    assert "FILE_MOSTLY_EMPTY" not in {one.code for one in (await deployment.report()).findings}
    [finding] = (await deployment.report(unused_bytes=1_000_000)).findings
    assert (finding.code, finding.severity) == ("FILE_MOSTLY_EMPTY", "note")
    await deployment.execute("VACUUM")
    assert (await deployment.report(unused_bytes=1_000_000)).findings == []


@asynccontextmanager
async def connected(url: str):  # type: ignore[no-untyped-def]
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@on_postgresql
async def test_transactions_that_stay_open_are_told(deployment: Deployment) -> None:
    async with connected(deployment.url) as connection:
        await connection.execute("BEGIN; SELECT 1")
        found = await deployment.findings(idle_transaction_s=0)
        assert "idle in a transaction" in found["TRANSACTION_IDLE"].what
        assert "TRANSACTION_IDLE" not in await deployment.findings()
        found = await deployment.findings(transaction_s=0)
        assert "postgres (pid" in found["TRANSACTION_LONG"].what
    assert not {"TRANSACTION_IDLE", "TRANSACTION_LONG"} & set(
        await deployment.findings(idle_transaction_s=0, transaction_s=0)
    )


@own_postgresql
async def test_a_setting_of_the_database_that_risks_money_is_told(own: Deployment) -> None:
    async with connected(own.url) as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        assert "synchronous_commit is off" in (await own.findings())["SETTING_DANGEROUS"].what
        await connection.execute(f"ALTER DATABASE {name} RESET synchronous_commit")
        assert "SETTING_DANGEROUS" not in await own.findings()
        await connection.execute(f"ALTER DATABASE {name} SET zero_damaged_pages = on")
        assert "damaged pages" in (await own.findings())["SETTING_DANGEROUS"].what


@own_postgresql
async def test_connections_that_run_out_are_told(own: Deployment) -> None:
    async with connected(own.url) as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 4")
        async with connected(own.url), connected(own.url):
            found = (await own.findings())["CONNECTIONS_SCARCE"]
            assert (found.severity, "4 of the 4 connections" in found.what) == ("critical", True)
            assert "opens up to 8" in found.what
        await connection.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
        assert "CONNECTIONS_SCARCE" not in await own.findings()


@own_postgresql
async def test_dead_rows_and_a_table_without_autovacuum_are_told(own: Deployment) -> None:
    await own.execute("ALTER TABLE pools SET (autovacuum_enabled = false)")
    assert "table pools" in (await own.findings())["AUTOVACUUM_OFF"].what
    await own.execute(
        "INSERT INTO pools SELECT n::text, 1, NULL, false FROM generate_series(1, 50) n",
        "DELETE FROM pools",
        "SELECT pg_stat_force_next_flush()",
    )
    assert "pools has 50 dead rows" in (await own.findings(dead_rows=10))["DEAD_ROWS"].what
    assert "DEAD_ROWS" not in await own.findings(dead_rows=50)
    await own.execute("ALTER TABLE pools RESET (autovacuum_enabled)", "VACUUM pools")
    assert not {"AUTOVACUUM_OFF", "DEAD_ROWS"} & set(await own.findings(dead_rows=10))


@own_postgresql
async def test_a_table_that_is_mostly_empty_is_noted_until_it_is_made_smaller(own: Deployment) -> None:
    async def noted() -> list[str]:
        report = await own.report(unused_bytes=100_000)
        return [finding.what for finding in report.findings if finding.code == "TABLE_MOSTLY_EMPTY"]

    await own.execute(
        "INSERT INTO pools SELECT n::text, 1, NULL, false FROM generate_series(1, 20000) n",
        "VACUUM (ANALYZE) pools",
    )
    assert await noted() == [], "it is large, and full"
    # The last row stays: what is empty at the end of a table is given back by itself.
    await own.execute("DELETE FROM pools WHERE name <> '20000'")
    await own.execute("VACUUM (ANALYZE) pools")
    [what] = await noted()
    assert "table pools" in what
    await own.execute("VACUUM FULL pools")
    assert await noted() == []


@on_postgresql
async def test_a_slot_that_holds_wal_is_told(deployment: Deployment) -> None:
    async with connected(deployment.url) as connection:
        await connection.execute("SELECT pg_create_physical_replication_slot('doctor_test', true)")
        try:
            await connection.execute("SELECT pg_logical_emit_message(true, 'test', repeat('x', 10000))")
            found = (await deployment.findings(slot_wal_bytes=1_000))["SLOT_HOLDS_WAL"]
            assert ("doctor_test, used by nobody" in found.what, found.severity) == (True, "warning")
            assert "SLOT_HOLDS_WAL" not in await deployment.findings()
        finally:
            await connection.execute("SELECT pg_drop_replication_slot('doctor_test')")
    assert "WAL_LONG" in await deployment.findings(wal_bytes=1)


@own_postgresql
async def test_a_role_that_may_not_look_is_told_what_it_needs(own: Deployment) -> None:
    async with connected(own.url) as connection:
        name = f"looker_{await connection.fetchval('SELECT current_database()')}"[:60]
        await connection.execute(f"CREATE ROLE {name} LOGIN BYPASSRLS; GRANT USAGE ON SCHEMA ficha TO {name}")
        await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA ficha TO {name}")
        try:
            url = own.url.replace("postgres@", f"{name}@")
            theirs = Deployment(Ficha(url, secret="qPzR7mWk2vXb9nLs4tYc8hJd3gFa6eUi"), url)  # noqa: S106
            report = await theirs.report()
            found = {finding.code: finding for finding in report.findings}
            unseen = {finding.group: finding for finding in report.findings if finding.code == "NOT_CHECKED"}
            assert unseen.keys() == {"wal", "writes"}
            assert "GRANT pg_monitor" in unseen["wal"].remedy
            assert "may not know where the server keeps its data" in found["DISK_NOT_SEEN"].what
            assert not {"wal", "writes", "disk", "sessions"} & set(report.checked)
            assert ("SESSIONS_HIDDEN" in found, report.exit_code) == (True, 0), "a right to look is a note"
            await connection.execute(f"GRANT pg_monitor TO {name}")
            assert await theirs.findings() == {}
        finally:
            await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@own_postgresql
async def test_roles_of_strangers_that_may_write_are_told(own: Deployment) -> None:
    async with connected(own.url) as connection:
        name = f"stranger_{await connection.fetchval('SELECT current_database()')}"[:60]
        await connection.execute(f"CREATE ROLE {name}; GRANT USAGE ON SCHEMA ficha TO {name}")
        try:
            await connection.execute(f"GRANT SELECT ON ficha.accounts TO {name}")
            assert "STRANGERS_WRITE" not in await own.findings()
            await connection.execute(f"GRANT UPDATE ON ficha.accounts TO {name}")
            finding = (await own.findings())["STRANGERS_WRITE"]
            assert (finding.severity, name in finding.what) == ("warning", True)
        finally:
            await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@own_postgresql
async def test_a_database_that_takes_no_writes_is_critical(own: Deployment) -> None:
    async with connected(own.url) as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        report = await own.report()
        [finding] = [one for one in report.findings if one.severity == "critical"]
        assert (finding.code, "read-only" in finding.what, report.exit_code) == ("WRITES_FAIL", True, 2)
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    assert "WRITES_FAIL" not in await own.findings()


@on_sqlite
async def test_a_file_that_another_program_keeps_locked_is_critical(deployment: Deployment) -> None:
    db = apsw.Connection(deployment.url.removeprefix("sqlite:///"))
    db.execute("BEGIN IMMEDIATE")
    assert "a lock is held" in (await deployment.findings())["WRITES_FAIL"].what
    db.close(True)
    assert "WRITES_FAIL" not in await deployment.findings()


@on_postgresql
async def test_a_disk_is_looked_at_over_tcp_if_it_is_the_servers_own(
    deployment: Deployment, postgres_server: Server
) -> None:
    async with connected(deployment.url) as connection:
        started_at = await connection.fetchval("SELECT extract(epoch FROM pg_postmaster_start_time())::bigint")
    folder = str(postgres_server.data)
    assert is_here(folder, started_at, is_socket=False)
    assert not is_here(folder, started_at - 60, is_socket=False), "a tunnel leads to another server"
    assert not is_here(f"{folder}/none", started_at, is_socket=False)
    assert is_here(folder, started_at - 60, is_socket=True)


# What processes show of themselves


async def test_secrets_that_differ_are_told_and_never_shown(deployment: Deployment) -> None:
    other = Ficha(deployment.url, secret="another secret of the same length, of tests")  # noqa: S106
    async with deployment.app.separate_operations(sweeps=False) as operations:
        for host, fingerprint in (("one", deployment.app.fingerprint), ("two", deployment.app.fingerprint)):
            await ProcessSigns(operations.engine, host, fingerprint).show()
        assert await deployment.findings() == {}
        await ProcessSigns(operations.engine, "three", other.fingerprint).show()
        finding = (await deployment.findings())["SECRETS_DIFFER"]
        assert (finding.severity, "2 different FICHA_SECRETs" in finding.what) == ("critical", True)
        assert "one, three" in finding.what
    await deployment.execute("DELETE FROM leaders")
    async with deployment.app.separate_operations(sweeps=False) as operations:
        await ProcessSigns(operations.engine, "three", other.fingerprint).show()
        [finding] = [one for one in (await deployment.report()).findings if one.group == "signs"]
        assert (finding.code, finding.severity) == ("SECRET_OTHER_HERE", "note")


async def test_the_clock_of_another_machine_is_told_until_it_is_right(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time_ns
    async with deployment.app.separate_operations(sweeps=False) as operations:
        signs = ProcessSigns(operations.engine, "far-away", None)
        await signs.show()
        assert await deployment.findings() == {}
        if deployment.kind == "sqlite":
            # There the database's clock is that of the process that asks.
            monkeypatch.setattr(signs, "_apart_s", _ten_minutes_behind)
        else:
            monkeypatch.setattr("ficha.engine.process_signs.time.time_ns", lambda: real() - 600_000_000_000)
        await signs.show()
        monkeypatch.undo()
    finding = (await deployment.findings())["CLOCK_OF_HOST_APART"]
    assert finding.severity == "critical"
    assert "The clock of far-away is 600.0 s behind" in finding.what


async def _ten_minutes_behind() -> float:
    return -600.0


@on_postgresql
async def test_clocks_that_are_apart_are_told(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of this process is what can be set apart without setting the machine's."""
    real = time.time_ns
    monkeypatch.setattr("ficha.doctor.postgres_check.time.time_ns", lambda: real() + 5_000_000_000)
    assert (await deployment.findings())["CLOCKS_APART"].severity == "warning"
    assert (await deployment.findings(clock_s=0.1))["CLOCKS_APART"].severity == "critical"
    monkeypatch.undo()
    assert "CLOCKS_APART" not in await deployment.findings()
