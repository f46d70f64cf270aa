"""`ficha simulate`: what would happen with other plans, prices, slots or priorities."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from ..app import Ficha
from ..engine.views import JobView
from ..simulate.comparison import (
    ScenarioFigures,
    WaitLine,
    figures_of_scenario,
    plans_of,
    pools_of,
    sparkline,
    waits_over_time,
)
from ..simulate.plot import write_plot
from ..simulate.recorded import RecordedJob, read_file, recorded_job, recorded_traffic, save
from ..simulate.replay import Simulated, replay
from ..simulate.scenario import Scenario, changed_by_file, changed_by_settings, today
from ..simulate.synthetic import read_description, synthetic_traffic
from ..simulate.traffic import Traffic, Unusable
from .backend import Backend, application, on_backend, page_items
from .options import App, AsJson
from .output import data, echo, note
from .output import table as print_table


def simulate(
    scenarios: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SCENARIO.toml", help="Files with changes; each is compared with today."),
    ] = None,
    recorded: Annotated[
        str | None,
        typer.Option(
            "--recorded",
            metavar="URL|FILE",
            help="Traffic that took place: a database, a server, or a file (JSON Lines or .csv).",
        ),
    ] = None,
    synthetic: Annotated[
        Path | None, typer.Option("--synthetic", metavar="FILE.toml", help="Made-up traffic, as the file describes it.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A change, such as pools.gpu.slots=5. Repeatable."),
    ] = None,
    facts: Annotated[
        Path | None,
        typer.Option(
            "--today",
            metavar="FILE.toml",
            help="For every scenario, what the application does not declare: workers, credits of plans, credit_price.",
        ),
    ] = None,
    days: Annotated[
        float | None, typer.Option("--days", min=0.001, help="How many of the last days of a recording to replay.")
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of made-up traffic: the same seed gives the same traffic.")
    ] = 1,
    by_tool: Annotated[bool, typer.Option("--tools", help="Also a line for each tool of each plan.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Also draw a picture: .svg or .html.")
    ] = None,
    save_as: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write the recording as JSON Lines, without names of accounts."),
    ] = None,
    app: App = None,
    as_json: AsJson = False,
) -> None:
    """Simulate before you change: replay traffic through the real rules, in virtual time.

    The first scenario is always today: your application as it is declared.

    Each SCENARIO.toml is compared with it, and so are all --set together.

    Shown are the waits by plan, the use of pools, refusals and credits.

    Nothing is changed: a database is only read.

    Example: ficha simulate --recorded sqlite:///ficha.db --set pools.gpu.slots=5
    """
    if (recorded is None) == (synthetic is None):
        raise typer.BadParameter("name the traffic: either --recorded URL|FILE or --synthetic FILE.toml")
    if recorded is None and (days is not None or save_as is not None):
        raise typer.BadParameter("--days and --save are for --recorded traffic")
    try:
        declared = application(app, None, "tools")[0]
        wanted = _scenarios(declared, facts, scenarios or [], changes or [])
        traffic = _traffic(app, wanted[0], recorded, synthetic, days, seed, save_as)
        for text in traffic.notes:
            note(text)
        simulated = [_simulated(scenario, traffic) for scenario in wanted]
        if plot is not None:
            write_plot(simulated, plot)
    except Unusable as error:
        raise typer.BadParameter(str(error)) from None
    figures = [figures_of_scenario(done) for done in simulated]
    if as_json:
        for one in figures:
            data(one)
        return
    _show(simulated, figures, by_tool)
    if plot is not None:
        echo(f"the plot is in {plot}")


def _scenarios(declared: Ficha, facts: Path | None, paths: Sequence[Path], changes: Sequence[str]) -> list[Scenario]:
    base = today(declared)
    if facts is not None:
        base = replace(changed_by_file(base, facts), name=base.name)
    found = [base, *(changed_by_file(base, path) for path in paths)]
    if changes:
        found.append(changed_by_settings(base, changes))
    names = [scenario.name for scenario in found]
    for name in names:
        if names.count(name) > 1:
            raise Unusable(f"two scenarios have the name {name!r}; give one of them another (name = …)")
    return found


def _traffic(
    app: str | None,
    base: Scenario,
    recorded: str | None,
    synthetic: Path | None,
    days: float | None,
    seed: int,
    save_as: Path | None,
) -> Traffic:
    if synthetic is not None:
        described = read_description(synthetic, base.policy.plans, base.tools)
        return synthetic_traffic(described, base.tools, seed)
    assert recorded is not None
    jobs = _recorded_jobs(app, recorded, days)
    if save_as is not None:
        count = save(jobs, save_as)
        echo(f"{count} jobs are in {save_as}, without names of accounts")
    return recorded_traffic(jobs, base.tools, base.policy.plans)


def _recorded_jobs(app: str | None, recorded: str, days: float | None) -> list[RecordedJob]:
    if "://" not in recorded:
        jobs = [*read_file(Path(recorded))]
        newest = max((_aware(job.created_at) for job in jobs), default=None)
    else:
        newest = datetime.now(UTC)
        jobs = on_backend(app, recorded, lambda backend: _read_all(backend, days), needs="tools")
    if days is None or newest is None:
        return jobs
    return [job for job in jobs if _aware(job.created_at) >= newest - timedelta(days=days)]


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


async def _read_all(backend: Backend, days: float | None) -> list[RecordedJob]:
    """All jobs, page by page, newest first; or those of the last days."""
    since = None if days is None else datetime.now(UTC) - timedelta(days=days)
    found: list[RecordedJob] = []
    after: str | None = None
    while True:
        page = await backend.jobs(after=after, limit=page_items(backend))
        found += map(recorded_job, page.items)
        if page.next is None or _is_before(page.items, since):
            return found
        after = page.next


def _is_before(jobs: Sequence[JobView], since: datetime | None) -> bool:
    return bool(jobs) and since is not None and jobs[-1].created_at < since


def _simulated(scenario: Scenario, traffic: Traffic) -> Simulated:
    if not sys.stderr.isatty():
        return replay(scenario, traffic)
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(scenario.name, total=max(1, len(traffic.arrivals) * scenario.arrivals))
        return replay(scenario, traffic, lambda done: bar.update(task, completed=done))


def _show(simulated: Sequence[Simulated], figures: Sequence[ScenarioFigures], by_tool: bool) -> None:
    first = figures[0]
    echo(f"{first.jobs} submits of {first.accounts} accounts in {first.days:.1f} days")
    if simulated[0].scenario.has_endless_credits:
        echo("no plan says what credits its accounts have (plans.NAME.credits), so nobody runs out of them")
    _show_waits(figures, by_tool)
    _space()
    _show_pools(pools_of(simulated), figures)
    _space()
    codes = sorted({code for one in figures for code in one.refusals})
    if codes:
        counts = [(code, one.scenario, one.refusals.get(code, 0)) for code in codes for one in figures]
        _table("refused", ("REFUSED", "SCENARIO", "SUBMITS"), counts)
        _space()
    _table(
        "credits",
        ("CREDITS", "CHARGED", "REFUNDED", "KEPT", "REVENUE"),
        [(one.scenario, one.charged, one.refunded, one.kept, _money(one.revenue)) for one in figures],
    )
    if sys.stdout.isatty():
        _space()
        rows = []
        for plan in plans_of(simulated):
            for done in simulated:
                waits = waits_over_time(done, plan)
                most = max((wait for wait in waits if wait is not None), default=0.0)
                rows.append((plan, done.scenario.name, sparkline(waits), _seconds(most)))
        print_table(("PLAN", "SCENARIO", "WAIT (P95) OVER TIME", "HIGHEST"), rows)


def _show_waits(figures: Sequence[ScenarioFigures], by_tool: bool) -> None:
    """Prints the lines of each plan and tool below each other, scenario by scenario."""
    names = list(dict.fromkeys((line.plan, line.tool) for one in figures for line in one.waits))
    rows: list[tuple[Any, ...]] = []
    plans = list(dict.fromkeys(plan for plan, _ in names))
    first = {plan: next(pair for pair in names if pair[0] == plan) for plan in plans}
    for plan, tool in names if by_tool else first.values():
        for one in figures:
            rows += [_wait_row(one.scenario, line) for line in one.waits if (line.plan, line.tool) == (plan, tool)]
    titles = ("PLAN", "TOOL", "SCENARIO", "SUBMITS", "REFUSED", "P50", "P95", "MAX", "FAILED", "ABANDONED", "UNENDED")
    _table("wait", titles, rows)


def _show_pools(names: Sequence[str], figures: Sequence[ScenarioFigures]) -> None:
    rows: list[tuple[Any, ...]] = []
    for name in names:
        for one in figures:
            for line in one.pools:
                if line.pool == name:
                    shares = _percent(line.utilisation), _percent(line.busiest)
                    rows.append((name, one.scenario, _slots(line.limit), *shares, line.most_held))
    _table("pool", ("POOL", "SCENARIO", "SLOTS", "USED", "BUSIEST", "MOST AT ONCE"), rows)


def _table(kind: str, titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """In a pipe, where there are no titles, each line begins with its kind."""
    print_table(titles, rows if sys.stdout.isatty() else [(kind, *row) for row in rows])


def _wait_row(scenario: str, line: WaitLine) -> tuple[Any, ...]:
    waits = (_seconds(line.wait_p50_s), _seconds(line.wait_p95_s), _seconds(line.wait_max_s))
    ends = (line.failed, line.abandoned, line.unended)
    return (line.plan, line.tool, scenario, line.submitted, line.refused, *waits, *ends)


def _space() -> None:
    if sys.stdout.isatty():
        print(flush=True)


def _seconds(value: float) -> str:
    return f"{value:.1f} s"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _slots(limit: int | None) -> str:
    return "no limit" if limit is None else str(limit)


def _money(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
