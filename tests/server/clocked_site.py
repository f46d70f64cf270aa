"""An application served in the test's own process, over real HTTP, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn

from ficha import Ficha, JobContext, Plan
from ficha.server import Settings
from ficha.store.base import Store
from ficha.testing import ManualClock
from tests.support.server_process import NO_TLS, SECRET
from tests.support.waiting import until

HOUR = 3_600


class Site:
    """A served application whose time stands still, and a client with an admin's key."""

    def __init__(self, app: Ficha, clock: ManualClock, client: httpx.AsyncClient, key: str) -> None:
        self.app = app
        self.clock = clock
        self.client = client
        self.key = key

    async def get(self, path: str, **params: Any) -> Any:
        answer = await self.client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        answer = await self.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def batch(self, account: str, count: int, tool: str = "draw") -> tuple[str, list[str]]:
        """A batch and its jobs."""
        items = [{"tool": tool, "payload": {"n": n}} for n in range(count)]
        made = await self.post("/api/batches", {"items": items, "account": account}, 201)
        jobs = (await self.get("/api/jobs", batch=made["batch_id"], account=account))["items"]
        return made["batch_id"], sorted(job["id"] for job in jobs)

    async def claim(self, limit: int, worker: str = "w1") -> list[dict[str, Any]]:
        """Leases of a worker that may never be heard of again; their jobs run."""
        asked = {"worker": worker, "pools": ["default"], "limit": limit}
        leases = (await self.post("/api/worker/claim", asked))["leases"]
        names = [{"job_id": lease["job_id"], "epoch": lease["epoch"]} for lease in leases]
        await self.post("/api/worker/heartbeat", {"leases": names})
        return names

    async def balance(self, account: str) -> int:
        return int((await self.get(f"/api/admin/accounts/{account}"))["balance"])

    async def is_right(self) -> None:
        assert await self.app.verify() == []


@asynccontextmanager
async def site_on(store: Store, clock: ManualClock) -> AsyncIterator[Site]:
    app = Ficha(store=store, plans=[Plan("open")], sweep_by_itself=False, sweep_s=24 * HOUR, secret=SECRET)

    @app.tool(cost=5, timeout=HOUR)
    async def draw(job: JobContext, n: int) -> None: ...

    @app.tool(cost=7, timeout=24 * HOUR)
    async def film(job: JobContext, n: int) -> None: ...

    app.cron("@yearly", tz="America/Sao_Paulo", missed="skip", payload={"n": 1}, name="yearly")(draw)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app.asgi(Settings(secret=SECRET)), log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listening]))
    await until(lambda: server.started or serving.done())
    try:
        await app.open_account("ana", plan="open", credits=100)
        key = (await app.create_api_key("tests", scope="admin")).secret
        headers = {"Authorization": f"Bearer {key}"}
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, verify=NO_TLS) as client:
            # The sweep that comes with the first calls finds nothing yet; the next one would come in a day.
            await until(lambda: app.engine.sweeper._leads_until > 0)
            yield Site(app, clock, client, key)
    finally:
        server.should_exit = True
        await serving
