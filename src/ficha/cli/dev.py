"""`ficha dev`: everything in one process, for development: a database, demo accounts with keys, a server on loopback,
and a worker.

It writes to no database that its command line does not name: the application and the environment may name one that is
in use.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from .logs import LogForm, configure
from .options import App, Database
from .output import echo, failure, note
from .worker import run

if TYPE_CHECKING:
    from ..app import Ficha
    from ..server.settings import Settings
    from ..tools import Tool

CREDITS: Final = 1_000
GRACE_S: Final = 2.0
KEY_TTL_S: Final = 8 * 3_600.0
"""A working day: how long a key lives at most, if it could not be revoked."""
REVOKE_S: Final = 2.0
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
PORTS_TRIED: Final = 20


def dev(
    app: App = None,
    database: Database = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port to listen at; if it is taken, the next free one.")
    ] = 8_000,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Handlers at a time.")] = 10,
) -> None:
    """Run your application for development: create an account with a key for each plan, and run a server with the
    console, and a worker, until Ctrl-C.

    The data is in a throw-away SQLite file, unless --database names a database.
    """
    from ..environment import SettingError
    from ..server.serving import NotServed
    from ..server.settings import Settings
    from .backend import application

    found, _ = application(app, database, "tools")
    try:
        # A random secret at each start is allowed on loopback only.
        settings = Settings.passing() if host in LOOPBACK else Settings.from_environment()
        sock = _listening(host, port)
    except SettingError as error:
        why = "" if host in LOOPBACK else f"{host} can be reached from outside, so leave --host out or set a secret: "
        failure("SETTINGS", f"{why}{error}", as_json=False)
        raise typer.Exit(1) from error
    except NotServed as error:
        failure("ADDRESS", str(error), as_json=False)
        raise typer.Exit(1) from error
    configure(LogForm.text)
    with tempfile.TemporaryDirectory(prefix="ficha-dev-") as folder:
        if database is None:
            found.use_database(f"sqlite:///{folder}/ficha.db")
            note("the data is in a throw-away SQLite file; to keep it, name a database: --database sqlite:///ficha.db")
        beside = partial(_serving, found, settings, sock)
        # The process exits before this block is left.
        closed = partial(shutil.rmtree, folder, ignore_errors=True)
        run(found, None, concurrency, grace_s=GRACE_S, beside=beside, closed=closed)


def _listening(host: str, port: int) -> socket.socket:
    """A socket at this port, or at the next free one."""
    from ..server.serving import PortTaken, listening

    for tried in range(port, min(port + PORTS_TRIED, 65_536)):
        try:
            found = listening(host, tried)
        except PortTaken:
            continue
        if tried != port:
            note(f"port {port} is taken by another program; using {tried}")
        return found
    raise PortTaken(f"no port from {port} on is free; choose another with --port")


@asynccontextmanager
async def _serving(app: Ficha, settings: Settings, sock: socket.socket) -> AsyncIterator[None]:
    from ..server.serving import ServerProcess, url_of

    started = asyncio.Event()
    server = ServerProcess(app, settings, grace_s=GRACE_S)
    server.on_started = started.set
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    access = Access(app)
    try:
        if started.is_set():
            await _print_access(app, settings, access, url_of(sock))
        yield
    finally:
        await access.end()
        server.stop()
        await serving


class Access:
    """The accounts and keys of one run, made and revoked in the name of the user who runs it."""

    def __init__(self, app: Ficha) -> None:
        from .backend import operator

        self._app = app
        self._operations = app.acting(operator())
        self._keys: list[str] = []

    async def account(self, plan: str) -> str:
        """Opens and prints an account of the plan, with a new key; returns the key."""
        from ..errors import NotFound

        name = f"demo-{plan}"
        try:
            account = await self._app.account(name)
        except NotFound:
            account = await self._operations.open_account(name, plan=plan, credits=CREDITS)
        echo(f"{name}: {account.balance} credits, plan {account.plan}", "account ", "bold")
        token = await self.key(f"dev {plan}", scope="user", account=name)
        echo(token, "token   ", "bold")
        return token

    async def key(self, name: str, **of: Any) -> str:
        """A new key of this name. Earlier ones, of a run that was killed, are revoked."""
        after: str | None = None
        while True:
            page = await self._app.api_keys(after=after, limit=100)
            for key in page.items:
                if key.name == name and key.state == "live":
                    await self._operations.revoke_api_key(key.id)
            if (after := page.next) is None:
                break
        made = await self._operations.create_api_key(name, ttl_s=KEY_TTL_S, **of)
        self._keys.append(made.key.id)
        return made.secret

    async def end(self) -> None:
        """Revokes the keys. Where that is not possible any more, they expire."""
        from ..errors import Refused
        from ..store.base import StoreError

        try:
            async with asyncio.timeout(REVOKE_S):
                for key_id in self._keys:
                    await self._operations.revoke_api_key(key_id)
        except (Refused, StoreError, TimeoutError) as error:
            note(f"the keys could not be revoked ({error}); they expire after {KEY_TTL_S / 3_600:.0f} hours")


async def _print_access(app: Ficha, settings: Settings, access: Access, url: str) -> None:
    from ..store.database_url import hidden

    tokens = [await access.account(plan.name) for plan in app.policy.declared_plans]
    admin = await access.key("dev admin", scope="admin")
    for name, tool in app.tools.items():
        fields = ", ".join(tool.schema().get("properties", {}))
        echo(f"{name}({fields})", "tool    ", "bold")
    echo(hidden(app.database), "data    ", "bold")
    echo(url, "server  ", "bold")
    login = f"-H 'Authorization: Bearer {tokens[0]}'"
    if (asked := _example(app)) is not None:
        echo(
            f"curl -s {url}/api/jobs {login} -H 'Content-Type: application/json' -d {shlex.quote(asked)}",
            "submit  ",
            "bold",
        )
    echo(f"curl -s '{url}/api/jobs?limit=1' {login}", "look    ", "bold")
    echo(f"curl -sN {url}/api/account/events {login}", "watch   ", "bold")
    echo(f"{url}/docs", "docs    ", "bold")
    if settings.console:
        _print_console(url)
    echo(admin, "admin   ", "bold")


def _print_console(url: str) -> None:
    """The console's address; below it comes the key that signs in there."""
    from ..server.routes.web_pages import is_console_built

    echo(f"{url}/console (sign in with the admin key below)", "console ", "bold")
    if not is_console_built():
        note("the console's pages are not built; in a clone of the repository, build them with: make web")


def _example(app: Ficha) -> str | None:
    """A submit of the first tool whose schema allows an invented payload."""
    from ..tools import PayloadMismatch

    for name, tool in app.tools.items():
        payload = _payload(tool)
        try:
            tool.arguments(msgspec.json.encode(payload).decode())
        except PayloadMismatch:
            continue
        return msgspec.json.encode({"tool": name, "payload": payload}).decode()
    return None


def _payload(tool: Tool) -> dict[str, Any]:
    schema = tool.schema()
    fields = schema.get("properties", {})
    return {name: _value(fields.get(name, {})) for name in schema.get("required", ())}


def _value(field: dict[str, Any]) -> Any:
    match field:
        case {"enum": [first, *_]} | {"examples": [first, *_]} | {"const": first}:
            return first
        case {"type": "integer" | "number"}:
            return field.get("minimum", 1)
        case {"type": "boolean"}:
            return True
        case {"type": "array"}:
            return [_value(field.get("items", {}))] * max(1, field.get("minItems", 1))
        case {"type": "object"}:
            return {}
    return "a lighthouse"
