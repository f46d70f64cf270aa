"""Runs the groups of checks one after the other. A group that fails leaves a finding, and the others go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from platform import python_version
from typing import Any, Final

from ..app import Ficha
from ..errors import Refused
from ..store.base import StoreError
from ..store.connect import kind_of
from ..store.database_url import hidden
from ..version import build
from . import (
    alert_check,
    application_check,
    counter_check,
    duty_check,
    file_check,
    hook_check,
    postgres_check,
    schema_check,
    sign_check,
    sqlite_check,
    write_check,
)
from .database import Looking, looking_at
from .findings import WORST_FIRST, DoctorLimits, DoctorReport, Finding, Severity
from .looked_over import LookedOver

Check = Callable[[LookedOver[Any]], AsyncIterator[Finding]]

ANY_DATABASE: Final[dict[str, Check]] = {
    "schema": schema_check.schema,
    "writes": write_check.writes,
    "signs": sign_check.signs,
    "duties": duty_check.duties,
    "counters": counter_check.counters,
    "alerts": alert_check.alerts,
    "hooks": hook_check.hooks,
    "files": file_check.files,
}
OWN: Final[dict[str, dict[str, Check]]] = {"postgresql": postgres_check.CHECKS, "sqlite": sqlite_check.CHECKS}
NEED_TABLES: Final = frozenset({"storage", "writes", "signs", "duties", "counters", "alerts", "hooks", "files"})
"""Groups that query Ficha's tables, and so need its schema."""
NOT_SEEN: Final = frozenset({"NOT_CHECKED", "SESSIONS_HIDDEN", "STANDBYS_HIDDEN", "DISK_NOT_SEEN"})
"""Findings that say that their group was not checked."""


async def examine(app: Ficha, limits: DoctorLimits | None = None) -> DoctorReport:
    """Checks the application's database, its settings and its files. Changes nothing."""
    limits = limits or DoctorLimits()
    facts: dict[str, str | int | float] = {"ficha": build(), "python": python_version()}
    findings: list[Finding] = []
    checked = ["application"]
    reads = 0
    about_settings = application_check.application(app)
    findings += about_settings
    try:
        async with looking_at(app.database, app.schema) as database:
            checked.append("connection")
            await _look(LookedOver(database, app, limits, facts), checked, findings)
            reads = database.reads
    except StoreError as error:
        remedy = (
            "See that the database runs, and that this machine reaches it and has a connection left. If it is another "
            "one, name it with --database or FICHA_DATABASE_URL."
        )
        severity: Severity = "unchecked" if kind_of(app.database) == "memory" else "critical"
        findings.append(Finding("connection", "DATABASE_NOT_REACHED", severity, str(error), remedy))
    findings.sort(key=lambda finding: WORST_FIRST.index(finding.severity))
    return DoctorReport(database=hidden(app.database), facts=facts, checked=checked, findings=findings, reads=reads)


async def _look(seen: LookedOver[Looking], checked: list[str], findings: list[Finding]) -> None:
    checks = {**OWN[seen.database.kind], **ANY_DATABASE}
    has_tables = await schema_check.version_of(seen.database) > 0
    for group, check in checks.items():
        if group in NEED_TABLES and not has_tables:
            continue
        try:
            found = [finding async for finding in check(seen)]
        except (StoreError, Refused, OSError) as error:
            found = [_not_checked(group, error)]
        findings += found
        if not any(finding.code in NOT_SEEN for finding in found):
            checked.append(group)


def _not_checked(group: str, error: Exception) -> Finding:
    if write_check.lacks_right(error):
        remedy = (
            "Give the role the right to look: on PostgreSQL, GRANT pg_monitor TO it, or let it read Ficha's tables."
        )
        return Finding(group, "NOT_CHECKED", "note", f"{group}: {error}", remedy)
    return Finding(group, "NOT_CHECKED", "unchecked", f"{group}: {error}", "See what is wrong there.")
