"""`ficha prune`: removes what is due by its age, or counts it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from ..core.policy import Retention
from ..engine.views import PruneCount, PruneReport
from ..operations import BoundOperations
from ..prune_export import ExportFailed
from .backend import Backend, on_backend
from .options import App, AsJson, Database, UsageError
from .output import data, echo, note, table

WORDS = {"job": "jobs", "result": "results", "payload": "payloads"}


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FOLDER",
            help="A folder: what is removed is first written to a file there, as compressed JSON Lines.",
        ),
    ] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Remove everything that is due by its age: jobs, results, payloads, and what belongs to them.

    The ages are those of the application's `Retention`. The ledger stays. May be killed and run again.
    """

    async def work(backend: Backend) -> PruneReport:
        if isinstance(backend, BoundOperations):
            if replace(backend.engine.policy.retention, by_itself=True) == Retention():
                note("the application sets no ages, so no job ever leaves; set them with Ficha(retention=Retention(…))")
            try:
                return await backend.prune(dry_run=dry_run, export=export)
            except ExportFailed as error:
                raise typer.BadParameter(str(error)) from None
        if export is not None:
            raise UsageError("--export needs the database: a server cannot write to this machine")
        found = await backend.prune(dry_run=dry_run, max_seconds=60.0 if dry_run else 10.0)
        while found.more and not dry_run:
            found = _sum(found, await backend.prune())
        return found

    report = on_backend(app, database, work, needs="tools")
    if as_json:
        data(report)
        return
    if report.jobs:
        rows = [(WORDS[one.what], one.tool, one.plan, one.count) for one in report.jobs]
        table(("WHAT", "TOOL", "PLAN", "COUNT"), rows)
    left = "would leave; nothing was changed" if report.dry_run else "left"
    total = sum(one.count for one in report.jobs)
    echo(f"{total}{' or more' if report.dry_run and report.more else ''} jobs, results and payloads {left}")
    if not report.dry_run:
        echo(f"with them {report.files} files, {report.batches} batches and {report.deliveries} webhook messages")
    if report.exported is not None:
        echo(f"what left is in {report.exported}")


def _sum(first: PruneReport, second: PruneReport) -> PruneReport:
    """Both parts of a prune as one."""
    counts = {(one.what, one.tool, one.plan): one.count for one in first.jobs}
    for one in second.jobs:
        name = (one.what, one.tool, one.plan)
        counts[name] = counts.get(name, 0) + one.count
    return replace(
        second,
        jobs=[PruneCount(*name, count) for name, count in sorted(counts.items())],
        batches=first.batches + second.batches,
        files=first.files + second.files,
        deliveries=first.deliveries + second.deliveries,
    )
