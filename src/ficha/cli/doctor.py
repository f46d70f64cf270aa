"""`ficha doctor`: checks a deployment, says what is wrong and what to do, and corrects counters."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec
import typer

from ..doctor import DoctorLimits, DoctorReport, Finding, examine, repair
from ..store.base import StoreError
from .backend import application, operator
from .options import App, AsJson, Database
from .output import data, details, echo, failure, note

STYLES: Final = {"critical": "bold red", "warning": "bold yellow", "unchecked": "bold magenta", "note": "dim"}


def doctor(
    repairs: Annotated[
        bool, typer.Option("--repair", help="Correct counters of accounts; each is audited. Money is never changed.")
    ] = False,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="NAME=NUMBER", help="The threshold of a check, such as transaction_s=60. Repeatable."
        ),
    ] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Check the deployment: database, settings, schema, long transactions, counters, disk, files. Reads little, and
    changes nothing without --repair.

    Exits with 0 if all is well, 1 with warnings, 2 if something is critical, 3 if something could not be checked.
    """
    limits = _limits(limit or [])
    try:
        found, why_plain = application(app, database, "settings")
    except StoreError as error:  # Not 1, which says that all was checked.
        failure("DATABASE", f"{error}; over HTTP there are `ficha top` and `ficha stats`", as_json=as_json)
        raise typer.Exit(3) from None
    if why_plain is not None:
        note(f"{why_plain}, so the standard settings were used; name your application with --app or FICHA_APP")

    async def run() -> tuple[dict[str, dict[str, int]], DoctorReport]:
        repaired = await repair(found, operator()) if repairs else {}
        return repaired, await examine(found, limits)

    repaired, report = asyncio.run(run())
    if as_json:
        data({**msgspec.to_builtins(report), "repaired": repaired, "exit": report.exit_code})
    else:
        _shown(repaired, report)
    raise typer.Exit(report.exit_code)


def _limits(given: list[str]) -> DoctorLimits:
    values: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in DoctorLimits.__struct_fields__:
            known = ", ".join(DoctorLimits.__struct_fields__)
            raise typer.BadParameter(f"there is no limit {name!r}; there are: {known}")
        values[name] = value
    try:
        return msgspec.convert(values, DoctorLimits, strict=False)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(f"a limit is NAME=NUMBER, such as transaction_s=60: {error}") from None


def _shown(repaired: dict[str, dict[str, int]], report: DoctorReport) -> None:
    details({name.replace("_", " "): value for name, value in report.facts.items()})
    for account, corrected in repaired.items():
        told = ", ".join(f"{name} {by:+}" for name, by in corrected.items()) or "nothing was wrong any more"
        echo(f"account {account}: {told}", "repaired: ", "bold green")
    for finding in report.findings:
        _told(finding)
    worst = sum(finding.severity != "note" for finding in report.findings)
    found = "all is well" if worst == 0 else "1 thing to look at" if worst == 1 else f"{worst} things to look at"
    echo(f"{report.database}: groups checked: {len(report.checked)}; {found}")


def _told(finding: Finding) -> None:
    echo(f"{finding.what} [{finding.code}]", f"{finding.severity}: ", STYLES[finding.severity])
    echo(finding.remedy, "    ", "dim")
