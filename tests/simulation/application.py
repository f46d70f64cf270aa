"""The application that every simulated process runs: plans, pools, tools, and handlers that take virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, Final, Protocol

from ficha import Accepted, Cancel, File, FinalError, JobView, Partial, Plan, Pool, Retry, Webhooks
from ficha.app import Ficha
from ficha.engine.committer import CommitLimits
from ficha.providers import ProviderCall
from ficha.store.base import Store
from ficha.worker import JobContext

from .provider_sites import ProviderSite, SiteProvider

PLANS: Final = (
    Plan("free", priority=50, max_running=1),
    Plan("single", priority=40, max_active=1),
    Plan("team", priority=20, max_running=3, max_active=6, ageing_s=4),
    Plan("pro", priority=10),
)
POOLS: Final = (Pool("gpu", 2), Pool("cpu"))
TOOLS: Final = ("quick", "slow", "flaky", "remote", "many", "same", "shared")
LEASE_S: Final = 6.0
TIMEOUT_S: Final = 20.0
UPLOAD_S: Final = 20.0
DEAD_UPLOADS_KEPT_S: Final = 200.0
"""Longer than any process stands still, also where the database's clock jumps ahead a few times meanwhile."""
UNUSED_S: Final = 30.0
COPY: Final = "copy"
"""The tool that takes a file and makes another one of it."""
PROVIDER_POOL: Final = "provider"
PROVIDER_S: Final = 60.0
"""How long a provider may take."""


class Provider(Protocol):
    """An outside service that takes work and calls back.

    listens: whether a hook tells it of jobs that ended.
    """

    listens: bool

    def accept(self, job_id: str) -> str:
        """Takes the work on and names it."""

    def hears(self, job_id: str) -> None:
        """Is told, by a hook, that a job has ended."""


def simulated_app(
    store: Store,
    random: Random,
    provider: Provider,
    sites: Sequence[ProviderSite] = (),
    webhooks: Webhooks | None = None,
) -> Ficha:
    """The application, not yet open. Each of the sites is the provider of a tool of its name."""
    app = Ficha(
        store=store,
        plans=PLANS,
        pools=(*POOLS, Pool(PROVIDER_POOL, 3)) if sites else POOLS,
        first_job_boost=5,
        lease_s=LEASE_S,
        heartbeat_s=2.0,
        max_recoveries=4,
        stuck_s=15.0,
        max_age_s=120.0,
        reservation_ttl_s=8.0,
        commit_limits=CommitLimits(give_up_s=6.0, conflict_tries=8, group_weight=random.choice((3, 50, 400))),
        secret="the secret of a simulated deployment",  # noqa: S106 (it guards nothing)
        public_url="https://ficha.example",
        webhooks=webhooks or False,
        upload_s=UPLOAD_S,
        dead_uploads_kept_s=DEAD_UPLOADS_KEPT_S,
        unused_file_s=UNUSED_S,
        leave_grace_s=4.0,
        silent_session_s=12.0,
    )

    async def works(longest_s: float) -> None:
        await asyncio.sleep(random.random() ** 2 * longest_s)

    async def part(job: JobContext, number: int) -> dict[str, Any]:
        await works(2.0)
        return {"part": number, "made": random.getrandbits(32)}

    if provider.listens:

        @app.on("completed", "failed", "cancelled", timeout=5.0)
        async def told(job: JobView) -> None:
            await works(2.0)
            provider.hears(job.id)

    @app.tool(cost=1, pool="cpu", timeout=TIMEOUT_S)
    async def quick(job: JobContext, mark: str) -> dict[str, str]:
        await works(0.5)
        return {"mark": mark}

    @app.tool(cost=5, pool="gpu", timeout=TIMEOUT_S, attempts=2, backoff=0.5)
    async def slow(job: JobContext, mark: str) -> dict[str, Any]:
        made = []
        for number in range(3):
            made.append(await job.step(f"part {number}", part, job, number))
            await job.checkpoint("part", progress=30 * number, data={"done": number})
        return {"mark": mark, "made": made}

    @app.tool(cost=4, pool="gpu", timeout=TIMEOUT_S, attempts=3, backoff=0.3, items="count")
    async def flaky(job: JobContext, mark: str, count: int = 4) -> Any:
        await works(1.5)
        match random.randrange(8):
            case 0 | 1:
                raise RuntimeError("the model was overloaded")
            case 2:
                raise FinalError("the picture is not allowed")
            case 3:
                return Retry(random.random() * 2, "later")
            case 4:
                return Cancel("nobody wants it any more")
            case 5:
                return Partial({"mark": mark}, delivered=3, of=4)
            case 6:
                await asyncio.sleep(30)
        return {"mark": mark}

    @app.tool(cost=7, pool="gpu", timeout=TIMEOUT_S, attempts=2, backoff=0.5)
    async def remote(job: JobContext, mark: str) -> Accepted:
        await works(0.5)
        ref = provider.accept(job.id)
        await works(0.5)
        return Accepted(ref)

    @app.tool(cost=lambda count: count, pool="cpu", timeout=TIMEOUT_S, items="count", max_items=2, max_wait=25.0)
    async def many(job: JobContext, mark: str, count: int) -> dict[str, Any]:
        await works(0.5)
        return {"mark": mark, "count": count}

    async def equal(job: JobContext, mark: str) -> dict[str, str]:
        await works(2.0)
        if random.random() < 0.5:
            raise RuntimeError("the model was overloaded")
        return {"mark": mark, "made_for": job.account}

    options: dict[str, Any] = {"cost": 2, "pool": "cpu", "timeout": TIMEOUT_S, "attempts": 2, "backoff": 0.3}
    app.tool(name="same", dedupe=True, **options)(equal)
    app.tool(name="shared", dedupe="global", **options)(equal)

    if sites:

        @app.tool(name=COPY, cost=2, pool="cpu", timeout=TIMEOUT_S, attempts=3, backoff=0.3)
        async def copy(job: JobContext, mark: str, image: File) -> dict[str, Any]:
            content = await image.read()
            await works(0.5)
            return {"mark": mark, "made": await job.save("copy", content)}

    async def call(job: JobContext, mark: str) -> ProviderCall:
        await works(0.2)
        return ProviderCall("model", {"mark": mark})

    options = {"cost": 3, "pool": PROVIDER_POOL, "timeout": PROVIDER_S, "attempts": 3, "backoff": 0.2}
    for number, site in enumerate(sites):
        when_down: Any = ("wait", "refuse")[number % 2]
        app.provider_tool(SiteProvider(site), name=site.host, when_down=when_down, **options)(call)

    return app
