"""The overview's alerts as findings: pools without workers, silent workers, webhooks, dead letters.

The alerts and the count of dead letters come from the same few reads as the console's first page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..core.alerts import AlertCode
from .database import Looking
from .findings import Finding
from .looked_over import LookedOver

REMEDIES: dict[AlertCode, str] = {
    "POOL_WITHOUT_WORKER": "Start a worker for the pool, or see why those that served it ended (`ficha workers`).",
    "POOL_PAUSED": "`ficha pools resume` lets its jobs start.",
    "WORKER_SILENT": "`ficha workers` names the host; look at the machine and at the worker's log.",
    "JOBS_STUCK": "`ficha stuck` lists them; `ficha recover` recovers them now.",
    "PROVIDER_DOWN": "`ficha providers list` says since when; the provider's own status page says why.",
    "DEAD_LETTERS_RISING": "`ficha dead list` shows their errors; `ficha dead requeue` runs one again.",
    "NO_HEARTBEAT": "`ficha stuck` lists the jobs; look at the machines of their workers.",
    "WAITS_LONG": "`ficha pools list` shows slots and workers; more of them, or other priorities, shorten waits.",
    "JOBS_FAILING": "`ficha dead groups` shows their errors; look at the tool's last change and at its provider.",
    "RUNS_SLOW": "`ficha jobs` and the console show which tool; look at its provider and at the machines.",
    "WEBHOOKS_LATE": "Workers send messages: see that one runs, and `ficha webhooks` for endpoints that do not answer.",
    "HOOKS_LATE": "Workers run hooks: see that one runs with this application, and look at its log.",
    "HOOKS_NOT_RUN": "`ficha hooks list` says when each was last run; start a worker with the module that declares it.",
    "SCHEDULES_NOT_FIRED": "`ficha schedules list` names them; start a process with the module that declares them.",
    "FIGURES_LATE": "A server or worker adds figures up: see that one runs, and look at its log.",
    "FIGURES_MISSING": "Nothing is to be done; keep commits longer (commits_kept_s) if nobody runs for long times.",
}


async def alerts(seen: LookedOver[Looking]) -> AsyncIterator[Finding]:
    async with seen.app.separate_operations(sweeps=False, creates=False) as operations:
        overview = await operations.overview("1h")
        versions = {
            worker.version for worker in (await operations.workers(limit=1_000)).items if worker.state == "alive"
        }
    for alert in overview.alerts:
        yield Finding("alerts", alert.code, alert.severity, alert.text, REMEDIES[alert.code])
    if overview.dead_letters >= seen.limits.dead_letters:
        more = " or more" if overview.dead_letters_more else ""
        yield Finding(
            "alerts",
            "DEAD_LETTERS_MANY",
            "warning",
            f"{overview.dead_letters}{more} failed jobs are dead letters that nobody has dealt with.",
            "`ficha dead list` shows them; `ficha bulk` requeues or discards many at once.",
        )
    if len(versions) > 1:
        yield Finding(
            "alerts",
            "VERSIONS_MIXED",
            "note",
            f"Live workers run different releases: {', '.join(sorted(filter(None, versions)))}.",
            "During a rolling upgrade that is as it should be; else upgrade the older ones.",
        )
