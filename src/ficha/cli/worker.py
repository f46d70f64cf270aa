"""`ficha worker`: runs jobs until it is stopped, the queue is empty, or its time is up."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..garbage import freeze_objects
from ..process_name import take_role
from .logs import LogForm, LogLevel, configure
from .options import App, AsJson, Database
from .service_manager import tell
from .signals import exit_in, on_signals

if TYPE_CHECKING:
    from ..app import Ficha

log = logging.getLogger("ficha.worker")

EXIT_S: Final = 5.0
"""How long after the grace the process exits at the latest, whatever its handlers do."""
FORCED_EXIT_S: Final = 1.0
"""How long after a second signal jobs may be handed back."""
HUNG: Final = 70
"""The exit code of a worker whose event loop was blocked beyond a job's timeout."""


def worker(
    app: App = None,
    database: Database = None,
    pools: Annotated[
        list[str] | None, typer.Option("--pools", help="The pools to serve; names may be separated by commas.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", min=1, help="Jobs at a time. Defaults to 10, or more for jobs_per_call."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", envvar="WORKER_ID", help="The worker's name.")] = None,
    burst: Annotated[bool, typer.Option("--burst", help="Stop when the queue is empty.")] = False,
    due_within: Annotated[
        float,
        typer.Option(
            "--due-within", min=0, help="With --burst, wait for retries that fall due within this many seconds."
        ),
    ] = 0.0,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=0.001, help="Claim nothing more after this time.")
    ] = None,
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="Seconds for jobs to end after SIGTERM or Ctrl-C.")
    ] = 30.0,
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=0, max=65_535, help="Serve /metrics there, to anybody. 0 is any free one."),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", help="The address that --metrics-port listens at.")
    ] = "127.0.0.1",
    log_form: Annotated[LogForm, typer.Option("--log", help="How log lines are written.")] = LogForm.auto,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="The least that is logged; warning: jobs that failed, and problems.")
    ] = LogLevel.info,
    as_json: AsJson = False,
) -> None:
    """Run jobs. SIGTERM or Ctrl-C lets running jobs end within the grace and hands the rest back; a second one stops at
    once.

    Exits with 0 when stopped, when the queue is empty (--burst) or when the time is up (--max-seconds).
    """
    from .backend import application

    found, _ = application(app, database, "tools")
    configure(log_form, log_level)
    take_role("worker", name)
    served = None if pools is None else [pool for given in pools for pool in given.split(",") if pool]
    run(
        found,
        served,
        concurrency,
        name,
        burst=burst,
        due_within_s=due_within,
        max_seconds=max_seconds,
        grace_s=grace,
        as_json=as_json,
        beside=nullcontext if metrics_port is None else partial(_with_metrics, found, metrics_host, metrics_port),
    )


@asynccontextmanager
async def _with_metrics(app: Ficha, host: str, port: int) -> AsyncIterator[None]:
    from ..extras import needs_extra

    with needs_extra("server"):
        from ..server.worker_metrics import metrics_served

    async with metrics_served(app, host, port) as served_at:
        log.info("metrics are served", extra={"url": f"http://{host}:{served_at}/metrics"})
        yield


def run(
    app: Ficha,
    pools: list[str] | None,
    concurrency: int | None,
    name: str | None = None,
    *,
    burst: bool = False,
    due_within_s: float = 0.0,
    max_seconds: float | None = None,
    grace_s: float,
    as_json: bool = False,
    beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    closed: Callable[[], None] = lambda: None,
) -> None:
    """Runs a worker, then exits the process. `beside` is entered once the application is open, and left before it is
    closed; `closed` is called after that."""
    try:
        asyncio.run(
            _work(app, pools, concurrency, name, burst, due_within_s, max_seconds, grace_s, as_json, beside, closed)
        )
    except BaseException:
        # Threads left by handlers must not keep the process alive; but first the error is printed.
        exit_in(EXIT_S)
        raise


async def _work(
    app: Ficha,
    pools: list[str] | None,
    concurrency: int | None,
    name: str | None,
    burst: bool,
    due_within_s: float,
    max_seconds: float | None,
    grace_s: float,
    as_json: bool,
    beside: Callable[[], AbstractAsyncContextManager[None]],
    closed: Callable[[], None],
) -> None:
    from ..backoff import away_pause_s
    from ..store.base import Unavailable
    from .output import data

    loop = asyncio.get_running_loop()
    runner = app.worker(pools, concurrency=concurrency, name=name, hung=_hung)
    stopped = asyncio.Event()

    def stop(in_s: float) -> None:
        stopped.set()
        runner.stop(in_s)

    def first(signal: str) -> None:
        exit_in(grace_s + EXIT_S - 0.5)
        tell("STOPPING=1")
        loop.call_soon_threadsafe(stop, grace_s)
        log.info("stopping", extra={"signal": signal, "grace_s": grace_s})

    def second(signal: str) -> None:
        exit_in(FORCED_EXIT_S)
        loop.call_soon_threadsafe(stop, 0.0)
        log.warning("stopping at once", extra={"signal": signal})

    on_signals(first, second)
    tries = 0
    while True:
        try:
            await app.open()
            break
        except Unavailable as error:
            if burst:
                raise
            tries += 1
            wait_s = away_pause_s(tries)
            log.warning("the database is unreachable", extra={"error": str(error), "again_in_s": round(wait_s, 1)})
            try:
                await asyncio.wait_for(stopped.wait(), wait_s)
            except TimeoutError:
                continue
            os._exit(0)
    try:
        async with beside():
            log.info(
                "worker started",
                extra={
                    "worker": runner.name,
                    "pools": list(runner.pools),
                    "concurrency": runner.concurrency,
                    "tools": sorted(app.tools),
                },
            )
            freeze_objects()
            tell("READY=1")
            ran = await runner.run(burst=burst, due_within_s=due_within_s, max_seconds=max_seconds)
            log.info("worker stopped", extra={"worker": runner.name, "jobs": ran})
    finally:
        await app.close(EXIT_S / 2)
        closed()
    if as_json:
        data({"worker": runner.name, "jobs": ran})
    # Threads left by handlers must not keep the process alive.
    sys.stdout.flush()
    os._exit(0)


def _hung() -> None:
    os._exit(HUNG)
