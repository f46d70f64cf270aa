"""`ficha serve`: serves the application over HTTP, in one process or several, until stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..process_name import take_role
from .logs import LogForm, LogLevel, configure, is_for_people
from .options import App, Database
from .output import echo, failure, note
from .service_manager import tell
from .signals import exit_in, on_signals

if TYPE_CHECKING:
    from ..app import Ficha
    from ..server.serving import ServerProcess
    from ..server.settings import Settings
    from ..server.supervisor import Serve, Stoppable

log = logging.getLogger("ficha.server")

EXIT_S: Final = 4.8
"""How long after the grace the process exits at the latest, whatever it waits for."""
FORCED_EXIT_S: Final = 1.5
"""The same after a second signal."""
NO_KEYS: Final = (
    "nobody can authenticate yet: there is no API key, and JWTs are not accepted; create a key with: "
    "ficha apikey create first --scope admin"
)


def serve(
    app: App = None,
    database: Database = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen at; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port to listen at; 0 is any free one.")
    ] = 8_000,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            min=1,
            max=256,
            help="How many server processes share the port. With several, a spare is kept.",
        ),
    ] = 1,
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="Seconds for requests to end after SIGTERM or Ctrl-C.")
    ] = 30.0,
    log_form: Annotated[LogForm, typer.Option("--log", help="How log lines are written.")] = LogForm.auto,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="The least that is logged; warning: no line for each request.")
    ] = LogLevel.info,
) -> None:
    """Serve your application over HTTP. Needs FICHA_SECRET. SIGTERM or Ctrl-C lets requests under way end within the
    grace; a second one stops at once.

    Exits with 0 when stopped.
    """
    from ..environment import SettingError
    from ..server.serving import NotServed, ServerProcess, bound, url_of
    from ..server.settings import Settings
    from ..server.stand_in import StandIn
    from ..server.supervisor import Supervisor
    from .backend import application

    found, _ = application(app, database, "tools")
    try:
        settings = Settings.from_environment()
    except SettingError as error:
        raise _failed("SETTINGS", error) from error
    if processes > 1 and found.database.startswith("memory:"):
        raise typer.BadParameter("each process would have a separate memory: database; name a file or PostgreSQL")
    configure(log_form, log_level)
    take_role("server")
    _check(found, settings, log_form)
    try:
        sock = bound(host, port)
        ready = partial(_ready, url_of(sock), log_form)
        if processes == 1:
            process = ServerProcess(found, settings, grace_s=grace)
            _serve_here(process, sock, ready, partial(_stop_on_signals, grace_s=grace))
            return
    except NotServed as error:
        raise _failed("ADDRESS", error) from error
    supervisor = Supervisor(
        partial(_prepare_child, app, database, log_form, log_level, grace),
        sock,
        processes,
        grace_s=grace,
        ready=ready,
        stand_in=StandIn(sock),
    )
    _stop_on_signals(supervisor, grace_s=grace)
    with _shared_counts():
        code = supervisor.run()
    raise typer.Exit(code)


@contextmanager
def _shared_counts() -> Iterator[None]:
    """A folder in which the processes count their metrics together (`server/process_metrics.py`)."""
    from ..server.process_metrics import FOLDER

    if FOLDER in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="ficha-metrics-") as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


def _ready(url: str, log_form: LogForm) -> None:
    if is_for_people(log_form):
        echo(url, "listening at ", "bold")
    else:
        # Whatever the level: scripts read from it where that is.
        log.handle(log.makeRecord(log.name, logging.INFO, "", 0, "listening at %s", (url,), None, extra={"url": url}))
    tell("READY=1")


def _failed(code: str, error: Exception) -> typer.Exit:
    failure(code, str(error), as_json=False)
    return typer.Exit(1)


def _check(app: Ficha, settings: Settings, log_form: LogForm) -> None:
    """Checks the database and its schema before the server listens."""
    from ..backoff import away_pause_s
    from ..store.base import Unavailable

    async def has_keys() -> bool:
        async with app.separate_operations(sweeps=False) as backend:
            return bool((await backend.api_keys(limit=1)).items)

    tries = 0
    while True:
        try:
            is_known = asyncio.run(has_keys()) or settings.jwt_secret is not None or settings.jwt_jwks_url is not None
        except Unavailable as error:
            tries += 1
            wait_s = away_pause_s(tries)
            log.warning("the database is unreachable", extra={"error": str(error), "again_in_s": round(wait_s, 1)})
            time.sleep(wait_s)
            continue
        if not is_known and is_for_people(log_form):
            note(NO_KEYS)
        elif not is_known:
            log.warning(NO_KEYS)
        return


def _serve_here(
    server: ServerProcess,
    sock: socket.socket,
    started: Callable[[], None],
    stop_with: Callable[[Stoppable], None],
) -> None:
    server.on_started = started

    async def served() -> None:
        # Only now, because the loop installed its own signal handling when it started.
        stop_with(server)
        await server.serve(sockets=[sock])

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(served())


def _prepare_child(
    app: str | None, database: str | None, log_form: LogForm, log_level: LogLevel, grace_s: float
) -> Serve:
    """Prepares a child process, which starts without any state."""
    from ..server.serving import ServerProcess
    from ..server.settings import Settings
    from .backend import application

    configure(log_form, log_level)
    take_role("server")
    found, _ = application(app, database, "tools")
    server = ServerProcess(found, Settings.from_environment(), grace_s=grace_s)
    server.prepare()
    return partial(_serve_here, server)


def _stop_on_signals(server: Stoppable, *, grace_s: float) -> None:
    def first(signal: str) -> None:
        exit_in(grace_s + EXIT_S)
        tell("STOPPING=1")
        log.info("stop requested", extra={"signal": signal, "grace_s": grace_s})
        server.stop()

    def second(signal: str) -> None:
        exit_in(FORCED_EXIT_S)
        log.warning("stopping at once", extra={"signal": signal})
        server.stop(at_once=True)

    on_signals(first, second)
