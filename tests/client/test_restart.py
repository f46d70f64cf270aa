"""A server that is restarted while it is used: who watches hears of everything, who submits has submitted once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit

from ficha import EventView, JobView
from ficha.client import AsyncClient, Client
from tests.client.test_walk import finish
from tests.support.server_process import Served, served


def restart(server: Served) -> None:
    """Stops the server, which must not wait for those who watch, and starts it at the same address."""
    assert server.stop() == 0
    server.start("--port", str(urlsplit(server.url).port))
    # Where it listens was known before, so that nobody waits for it to be said again; the client asks until it answers.
    with Client(server.url, server.admin) as admin:
        assert admin.pools()


def test_a_watch_and_a_submit_go_on_over_a_restart(tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path / 'ficha.db'}", "--grace", "5") as server:
        with Client(server.url, server.account("ana")) as me, ThreadPoolExecutor(1) as threads:
            job_id = me.submit("paint", {"prompt": "x"}).job_id
            begun = threading.Event()
            seen: list[object] = []

            def watch() -> None:
                for happening in me.watch(job_id):
                    seen.append(happening)
                    begun.set()

            watching = threads.submit(watch)
            assert begun.wait(30)
            restart(server)
            assert me.submit("paint", {"prompt": "y"}).new_balance == 94
            finish(server, job_id, {"picture": 1})
            watching.result(60)
        events = [item for item in seen if isinstance(item, EventView)]
        assert [event.kind for event in events] == ["submitted", "claimed", "started", "partial", "completed"]
        assert isinstance(seen[-1], JobView)
        assert seen[-1].result == {"picture": 1}


async def test_who_awaits_hears_of_it_too(tmp_path: Path) -> None:
    def serve() -> Served:
        server = Served(f"sqlite:///{tmp_path / 'ficha.db'}")
        server.start("--grace", "5")
        return server

    server = await asyncio.to_thread(serve)
    try:
        async with AsyncClient(server.url, await asyncio.to_thread(server.account, "ana")) as me:
            job_id = (await me.submit("paint", {"prompt": "x"})).job_id
            kinds: list[str] = []
            async with aclosing(me.watch(job_id)) as watching:
                async for happening in watching:
                    if isinstance(happening, EventView):
                        kinds.append(happening.kind)
                        if kinds == ["submitted"]:
                            await asyncio.to_thread(restart, server)
                            assert (await me.cancel(job_id)).changed
        assert kinds == ["submitted", "cancelled"]
    finally:
        assert await asyncio.to_thread(server.stop) == 0
