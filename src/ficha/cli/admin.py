"""`ficha stats`, `stuck`, `recover`, `refund`, `reservations` and `idempotency`: for operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, get_args

import msgspec
import typer

from .. import validation as arg
from ..core.outcomes import Recovered
from ..core.records import ReservationState
from ..engine.sweeper import SweepReport
from ..engine.views import RANGES, FinishView, Hold, JobView, KeyView, Overview, Page
from ..operations import BoundOperations
from ..store.base import Stats
from .backend import Backend, on_backend
from .listing import each, list_on_backend
from .options import (
    LIMIT,
    Account,
    After,
    App,
    AsJson,
    Database,
    Include,
    JobIds,
    Limit,
    RefundAmount,
    RefundShare,
    texts,
)
from .output import credits, data, details, duration, echo

STUCK: Final[dict[str, Callable[[JobView], Any]]] = {
    "ID": lambda job: job.id,
    "STATUS": lambda job: job.status,
    "TOOL": lambda job: job.tool,
    "ACCOUNT": lambda job: job.account,
    "WORKER": lambda job: job.locked_by,
    "HEARTBEAT": lambda job: job.last_heartbeat_at,
    "CHECKPOINT": lambda job: job.checkpoint,
}
RESERVATIONS: Final[dict[str, Callable[[Hold], Any]]] = {
    "ID": lambda hold: hold.id,
    "STATE": lambda hold: hold.state,
    "ACCOUNT": lambda hold: hold.account,
    "EXPIRES": lambda hold: hold.expires_at,
    "JOB": lambda hold: hold.job_id,
}
KEYS: Final[dict[str, Callable[[KeyView], Any]]] = {
    "ACCOUNT": lambda key: key.account,
    "KEY": lambda key: key.key,
    "SCOPE": lambda key: key.scope,
    "JOB": lambda key: key.job_id,
    "EXPIRES": lambda key: key.expires_at,
}


def stats(
    range: Annotated[
        str | None, typer.Option(help=f"Show what happened in this time up to now instead: {', '.join(RANGES)}.")
    ] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show statistics of the active jobs, or of the last hours or days."""
    if range is not None:
        _overview(range, app, database, as_json=as_json)
        return

    async def work(backend: Backend) -> tuple[Stats, float | None]:
        return await backend.stats(), _stuck_s(backend)

    found, stuck_s = on_backend(app, database, work, needs="settings")
    if as_json:
        data({**msgspec.to_builtins(found), **({} if stuck_s is None else {"stuck_s": stuck_s})})
        return
    details(
        {
            **{str(status): count for status, count in found.by_status.items()},
            **{f"at {name or 'no checkpoint'}": count for name, count in found.by_checkpoint.items()},
            f"no heartbeat for {_too_long(stuck_s)}": found.stuck,
            "dead letters": found.dead,
            "average run": None if found.avg_run_s is None else f"{found.avg_run_s:.1f} s",
        }
    )


def _overview(asked: str, app: str | None, database: str | None, *, as_json: bool) -> None:
    async def work(backend: Backend) -> Overview:
        return await backend.overview(asked)

    found = on_backend(app, database, work, needs="settings")
    if as_json:
        data(found)
        return
    lines = {name: getattr(found, name) for name in ("submitted", "completed", "failed", "cancelled")}
    details(
        {
            **{name: sum(sum(series.values) for series in chart) for name, chart in lines.items()},
            "waiting now": sum(series.values[-1] for series in found.depth),
            "longest typical wait": _longest(found.wait_p50),
            "longest typical run": _longest(found.run_p50),
            "credits charged": credits(sum(found.charged)),
            "credits refunded": credits(sum(found.refunded)),
            "credits granted": credits(sum(found.granted)),
            "provider cost": f"{sum(found.provider_cost):.2f}",
            "workers": f"{found.workers.alive} alive, {found.workers.silent} silent",
            "dead letters": f"{found.dead_letters}{'+' if found.dead_letters_more else ''}",
            **{f"failed: {failure.reason}": failure.count for failure in found.failures},
        }
    )
    for alert in found.alerts:
        echo(alert.text, f"{alert.severity}: ", "bold red" if alert.severity == "critical" else "bold yellow")


def _longest(medians: list[float | None]) -> str | None:
    """The longest of the medians of all intervals."""
    known = [median for median in medians if median is not None]
    return duration(max(known)) if known else None


def stuck(
    include: Include = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List held jobs without a heartbeat for too long, newest first."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.stuck(after=cursor, limit=most, include=texts(include)),
        STUCK,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing=lambda backend: f"no held job is without a heartbeat for {_too_long(_stuck_s(backend))}",
        needs="settings",
    )


def _stuck_s(backend: Backend) -> float | None:
    """After how long without a heartbeat a job is stuck; not known of a server."""
    return backend.engine.policy.stuck_ms / 1_000 if isinstance(backend, BoundOperations) else None


def _too_long(stuck_s: float | None) -> str:
    return "too long" if stuck_s is None else f"over {duration(stuck_s)}"


def recover(
    job_id: Annotated[str | None, typer.Argument(metavar="JOB", help="Only this job.")] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Recover what is due: one job, or all jobs, expired keys, reservations and files."""

    async def work(backend: Backend) -> Recovered | SweepReport:
        return await backend.sweep() if job_id is None else await backend.recover(job_id)

    done = on_backend(app, database, work, needs="settings", acts=True)
    if as_json:
        data(done)
    elif isinstance(done, Recovered):
        refund = f"; {credits(done.refunded)} refunded" if done.refunded else ""
        echo(f"job {done.job_id}: " + ("nothing was due" if done.act == "nothing" else f"{done.act}{refund}"))
    elif not done:
        echo("nothing was due")
    else:
        counts = {**{f"jobs {act}": count for act, count in done.jobs.items()}}
        counts |= {"reservations cleared": done.reservations, "keys deleted": done.keys, "files swept": done.files}
        echo(", ".join(f"{count} {what}" for what, count in counts.items() if count))


def refund(
    job_ids: JobIds,
    reason: Annotated[str, typer.Option("--reason", help="Why; the account's owner reads it in the ledger.")],
    amount: RefundAmount = None,
    share: RefundShare = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Give back what jobs that ended were charged, or a part of it, once."""
    arg.refund_part(amount, share)

    def sentence(done: FinishView) -> str:
        if not done.changed:
            before = f"; {credits(done.refunded)} of it had been refunded before" if done.refunded else ""
            return f"job {done.job_id}: nothing was given back{before}"
        return f"job {done.job_id}: {credits(done.refunded)} refunded"

    async def work(backend: Backend) -> None:
        async def refund_one(job_id: str) -> FinishView:
            return await backend.refund(job_id, reason=reason, amount=amount, share=share)

        await each(job_ids, refund_one, sentence, as_json=as_json)

    on_backend(app, database, work)


def reservations(
    account: Account = None,
    state: Annotated[
        str | None, typer.Option(help=f"Only those in this state: {', '.join(get_args(ReservationState))}.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Show how many there are in each state instead.")] = False,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List quota reservations, newest first."""
    if count:
        counts = on_backend(app, database, lambda backend: backend.count_reservations(account=account))
        if as_json:
            data(counts)
        else:
            details({str(name): jobs for name, jobs in counts.items()})
        return
    wanted = arg.reservation_state(state)
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.reservations(account=account, state=wanted, after=cursor, limit=most),
        RESERVATIONS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no reservations",
    )


def idempotency(
    account: Account = None,
    key: Annotated[str | None, typer.Option("--key", help="Only this key of the account.")] = None,
    limit: Limit = LIMIT,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ACCOUNT/KEY/SCOPE", help="Continue after this one.")
    ] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List idempotency keys and their jobs, by account and key."""

    async def page(backend: Backend, cursor: str | None, most: int) -> Page[KeyView]:
        if not isinstance(backend, BoundOperations):
            return await backend.idempotency_keys(account=account, key=key, after=cursor, limit=most)
        # Neither a key nor a scope contains a slash, so the account may.
        start = None if cursor is None else tuple(cursor.rsplit("/", 2))
        if start is not None and len(start) != 3:
            raise typer.BadParameter(f"write --after ACCOUNT/KEY/SCOPE, not {cursor!r}")
        keys = await backend.idempotency_keys(account=account, key=key, after=start, limit=most)
        return Page(keys, "/".join((keys[-1].account, keys[-1].key, keys[-1].scope)) if len(keys) == most else None)

    list_on_backend(app, database, page, KEYS, after=after, limit=limit, as_json=as_json, nothing="no idempotency keys")
