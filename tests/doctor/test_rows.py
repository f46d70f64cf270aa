"""What goes wrong with rows, duties and files on either database: broken, found, mended, gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ficha import Ficha
from ficha.core import commands as c
from ficha.doctor import repair
from ficha.doctor.counter_check import miscounted
from ficha.doctor.database import looking_at
from tests.doctor.conftest import Deployment


async def fill(app: Ficha) -> None:
    """An account with jobs in every place, a reservation and two files."""
    async with app:
        await app.open_account("ana", plan="free", credits=100)
        for _ in range(3):
            await app.submit("upscale", {"image": "x"}, account="ana")
        await app.claim("gpu", worker="w1")
        await app.reserve("ana")
        for name in ("a.txt", "b.txt"):
            await app.upload("ana", name, b"some text\n")
        await app.sweep()


async def test_a_deployment_that_is_well_has_no_finding(deployment: Deployment) -> None:
    report = await deployment.report()
    assert (report.findings, report.exit_code) == ([], 0)
    assert {"application", "connection", "versions", "schema", "duties", "counters", "alerts", "files"} <= {
        *report.checked
    }
    assert report.facts["schema_version"] >= 1  # type: ignore[operator]
    assert report.reads < 40


BREAKS = (
    "UPDATE accounts SET active = active + 2",
    "UPDATE accounts SET admitted = 0",
    "UPDATE accounts SET parked = 0",
    "UPDATE accounts SET parked = parked + 1, admitted = admitted + 1",
    "UPDATE accounts SET reserved = 9",
    "UPDATE file_usage SET files = 0",
    "UPDATE file_usage SET size = size + 1",
    "DELETE FROM file_usage",
    "UPDATE accounts SET latest_job = '01890000-0000-7000-8000-000000000000'",
)


async def test_a_counter_that_a_hand_broke_is_found_and_repaired_with_an_audit_line(deployment: Deployment) -> None:
    app = deployment.app
    await fill(app)
    for broken in BREAKS:
        await deployment.execute(broken)
        async with looking_at(deployment.url, app.schema) as database:
            assert await miscounted(database) == ["ana"], broken
        assert (await repair(app, "boss"))["ana"] != {}, broken
        async with app:
            assert await app.verify() == [], broken
    async with app:
        lines = (await app.audit()).items
    assert {(line.actor, line.act, line.target) for line in lines} == {("boss", "recount", "account ana")}
    assert await repair(app, "boss") == {}


async def test_wrong_counters_are_a_finding_until_they_are_repaired(deployment: Deployment) -> None:
    await fill(deployment.app)
    await deployment.execute(BREAKS[0])
    finding = (await deployment.findings())["COUNTERS_WRONG"]
    assert (finding.severity, "account ana" in finding.what) == ("critical", True)
    await repair(deployment.app, "boss")
    assert "COUNTERS_WRONG" not in await deployment.findings()


async def test_a_repair_beside_a_busy_application_loses_no_count(deployment: Deployment) -> None:
    app = deployment.app
    async with app:
        await app.open_account("ana", plan="open", credits=1_000)
        await app.submit("upscale", {"image": "x"}, account="ana")
        await deployment.execute("UPDATE accounts SET active = active + 3")

        async def busy() -> None:
            for _ in range(10):
                await app.submit("upscale", {"image": "x"}, account="ana")

        done = await asyncio.gather(busy(), busy(), repair(app, "boss"))
        assert done[2] == {"ana": {"active": -3}}
        assert await app.verify() == []
        assert (await app.account("ana")).active == 21


async def test_a_balance_that_is_not_the_ledgers_is_told_and_left_alone(deployment: Deployment) -> None:
    await fill(deployment.app)
    await deployment.execute("UPDATE accounts SET balance = balance + 1")
    assert (await deployment.findings())["BALANCE_WRONG"].severity == "critical"
    assert await repair(deployment.app, "boss") == {}
    assert "BALANCE_WRONG" in await deployment.findings()
    await deployment.execute("UPDATE accounts SET balance = balance - 1")
    assert "BALANCE_WRONG" not in await deployment.findings()


async def test_overdue_jobs_and_a_missing_sweeper_are_told_until_somebody_sweeps(deployment: Deployment) -> None:
    await fill(deployment.app)
    past = "0" if deployment.kind == "sqlite" else "'2020-01-01'"
    await deployment.execute(f"UPDATE leases SET expires_at = {past}", "DELETE FROM leaders")
    found = await deployment.findings()
    assert found["NOBODY_SWEEPS"].severity == found["LEASES_OVERDUE"].severity == "critical"
    assert "no process has ever led" in found["NOBODY_SWEEPS"].what
    await deployment.execute(f"INSERT INTO leaders (name, owner, expires_at) VALUES ('sweeper', 'x', {past})")
    assert "none has led" in (await deployment.findings())["NOBODY_SWEEPS"].what
    future = "4000000000000000" if deployment.kind == "sqlite" else "'2099-01-01'"
    await deployment.execute(f"UPDATE leaders SET expires_at = {future}")
    found = await deployment.findings()
    assert ("NOBODY_SWEEPS" in found, found["LEASES_OVERDUE"].severity) == (False, "warning")
    async with deployment.app as app:
        await app.sweep()
    assert "LEASES_OVERDUE" not in await deployment.findings()


async def test_parked_jobs_that_are_due_are_told(deployment: Deployment) -> None:
    async with deployment.app as app:
        await app.open_account("ana", plan="open", credits=100)
        await app.submit("upscale", {"image": "x"}, account="ana", delay_s=3_600)
    past = "0" if deployment.kind == "sqlite" else "'2020-01-01'"
    assert "PARKED_OVERDUE" not in await deployment.findings()
    await deployment.execute(f"UPDATE parked SET due_at = {past}")
    assert "1 jobs were due" in (await deployment.findings())["PARKED_OVERDUE"].what
    async with deployment.app as app:
        await app.sweep()
    assert "PARKED_OVERDUE" not in await deployment.findings()


async def test_what_the_overview_alerts_of_is_a_finding_with_something_to_do(deployment: Deployment) -> None:
    async with deployment.app as app:
        await app.open_account("ana", plan="open", credits=100)
        await app.submit("upscale", {"image": "x"}, account="ana")
        await app.submit("embed", {"text": "x"}, account="ana")
        await app.pause_pool("gpu")
    found = await deployment.findings()
    assert (found["POOL_WITHOUT_WORKER"].severity, found["POOL_PAUSED"].severity) == ("critical", "warning")
    async with deployment.app as app:
        await app.resume_pool("gpu")
        for lease in await app.claim("gpu", worker="w1") + await app.claim("cpu", worker="w1"):
            await app.fail(lease, "broken")
    assert {"POOL_WITHOUT_WORKER", "POOL_PAUSED"} & set(await deployment.findings()) == set()
    assert "2 failed jobs" in (await deployment.findings(dead_letters=2))["DEAD_LETTERS_MANY"].what
    assert "DEAD_LETTERS_MANY" not in await deployment.findings(dead_letters=3)


async def test_workers_of_different_releases_are_noted(deployment: Deployment) -> None:
    async with deployment.app as app:
        for version in ("1.0", "1.1"):
            await app.engine.call(c.RegisterWorker(f"w{version}", "here", 1, ("gpu",), 1, version, 10_000))
            found = [one for one in (await deployment.report()).findings if one.code == "VERSIONS_MIXED"]
            assert [one.severity for one in found] == ([] if version == "1.0" else ["note"])
    assert "1.0, 1.1" in found[0].what


async def test_files_and_rows_are_compared(deployment: Deployment, tmp_path: Path) -> None:
    await fill(deployment.app)
    folder = tmp_path / "files"
    first, second = sorted(path for path in folder.rglob("*_*") if path.is_file())
    assert not {"FILES_LOST", "FILES_UNKNOWN", "FILES_AWAY"} & set(await deployment.findings())

    first.rename(first.with_name("01890000-0000-7000-8000-000000000000_1"))
    found = await deployment.findings()
    assert "1 of the 2 newest files have a row and no bytes" in found["FILES_LOST"].what
    assert "01890000-0000-7000-8000-000000000000_1" in found["FILES_UNKNOWN"].what
    assert (found["FILES_LOST"].severity, found["FILES_UNKNOWN"].severity) == ("critical", "warning")

    folder.rename(tmp_path / "elsewhere")
    assert (await deployment.findings())["FILES_AWAY"].severity == "critical"
    (tmp_path / "elsewhere").rename(folder)
    first.with_name("01890000-0000-7000-8000-000000000000_1").rename(first)
    assert not {"FILES_LOST", "FILES_UNKNOWN", "FILES_AWAY"} & set(await deployment.findings())
    assert second.exists()


async def test_a_disk_that_is_nearly_full_is_told(deployment: Deployment) -> None:
    await fill(deployment.app)
    found = await deployment.findings(free_bytes=1 << 60, free_share=1.0)
    assert found["DISK_NEARLY_FULL"].severity == "critical"
    assert "DISK_NEARLY_FULL" not in await deployment.findings(free_bytes=1, free_share=1.0)
    assert "DISK_NEARLY_FULL" not in await deployment.findings(free_bytes=1 << 60, free_share=0.0)
