"""An application with a tool for each kind of provider, for worker processes that are killed in the middle of a start.

The providers are the simulator's. `plain` is configured without keys, and `findable` can be asked for the work of a
start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ficha import Ficha
from ficha.providers import (
    Fal,
    GenericProvider,
    Provider,
    ProviderCall,
    Replicate,
    RequestTemplate,
    RunningHub,
    StateFields,
)
from ficha.worker import collector
from tests.support.processes import ForkedProcess

SIMULATOR, PUBLIC = "PAID_STARTS_SIMULATOR", "PAID_STARTS_PUBLIC_URL"
OUR_SECRET = "the secret of the deployment under test"  # noqa: S105 (of a test)
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
"""A PNG of one red pixel."""


def plain(url: str, **options: Any) -> GenericProvider:
    return GenericProvider(
        headers={"authorization": "Bearer key"},
        start=RequestTemplate(
            url=f"{url}/plain/tasks",
            headers={"x-name": "{key}"} if "find" in options else {},
            body={"model": "{target}", "input": "{input}", "callback_url": "{callback_url}"},
        ),
        ref="task.id",
        status=RequestTemplate(method="GET", url=url + "/plain/tasks/{ref}"),
        fields=StateFields(
            state="task.state", working=("queued", "working"), succeeded=("succeeded",), failed=("failed", "cancelled")
        ),
        **options,
    )


def providers(url: str) -> dict[str, Provider]:
    terms: dict[str, Any] = {"poll_s": 0.2, "timeout_s": 5.0}
    return {
        "replicate": Replicate("key", base_url=f"{url}/replicate/v1", **terms),
        "fal": Fal("key", base_url=f"{url}/fal", keys_url=f"{url}/fal/.well-known/jwks.json", **terms),
        "runninghub": RunningHub("key", base_url=f"{url}/runninghub", **terms),
        "plain": plain(url, name="plain", **terms),
        "busy": plain(url, name="busy", at_once=1, **terms),
        "findable": plain(
            url,
            name="findable",
            find=RequestTemplate(method="GET", url=url + "/plain/tasks?name={key}"),
            found="tasks.0.id",
            **terms | {"timeout_s": 3.0},
        ),
    }


def call_of(name: str) -> ProviderCall:
    if name == "runninghub":
        return ProviderCall("image-upscaler", {"10.image": PICTURE, "10.scale": 2})
    return ProviderCall("acme/image-upscaler", {"image": PICTURE, "scale": 2})


def build(url: str) -> Ficha:
    app = Ficha(
        url,
        sweep_s=0.05,
        lease_s=0.6,
        heartbeat_s=0.1,
        secret=OUR_SECRET,
        public_url=os.environ[PUBLIC],
        allow_addresses=["127.0.0.0/8"],
    )
    for name, provider in providers(os.environ[SIMULATOR]).items():

        def declare(name: str, provider: Provider) -> None:
            @app.provider_tool(provider, name=name, cost=5, timeout=60, attempts=1, stop_grace=0.01)
            async def tool(job: Any) -> ProviderCall:
                return call_of(name)

        declare(name, provider)
    return app


@contextmanager
def worker(log: Path, *options: str) -> Iterator[ForkedProcess]:
    url = os.environ["FICHA_DATABASE_URL"]
    arguments = ["worker", "--app", "tests.provider_tools.paid_starts:app", "--database", url, *options]
    with open(log, "ab") as file:
        process = ForkedProcess("ficha.cli", arguments, env=os.environ, stdout=file, stderr=file)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=20)


def __getattr__(name: str) -> Any:
    if name == "app":
        collector.SERVERS_AFTER_S = 0.2
        return build(os.environ["FICHA_DATABASE_URL"])
    raise AttributeError(name)
