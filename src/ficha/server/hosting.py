"""Inside another server (`app.asgi()` under uvicorn, or mounted into an application): that server's log lines show no
tokens, live streams end when it stops, and at most one process serves a database without FICHA_SECRET."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import signal
import socket
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus
from weakref import WeakKeyDictionary

from msgspec import Struct

from ..core.commands import Elect
from ..core.outcomes import Elected
from ..environment import SettingError
from ..store.base import StoreError
from .settings import HINT

if TYPE_CHECKING:
    from ..app import Ficha
    from ..engine.event_tail import EventTail

log = logging.getLogger("ficha.server")

HOST_LOGGERS: Final = ("uvicorn.access", "uvicorn.asgi", "gunicorn.access", "hypercorn.access")
HIDDEN: Final = "[hidden]"
_PARAMETER: Final = re.compile(r"(?P<name>[^=&?'\"\s]{1,40})=[^&\s'\"]+")
STOP_SEEN_S: Final = 0.25
"""How often the host's server is polled for its stop: live streams end at most this much later."""
SECRET_DUTY: Final = "process without FICHA_SECRET"  # noqa: S105 (a name, not a secret)
SECRET_HELD_S: Final = 6.0
SECRET_RENEWED_S: Final = 2.0
NO_SECRET: Final = (
    "FICHA_SECRET is not set: this process signs job tokens, sign-ins and cursors with a random secret, which it "
    f"forgets when it ends. Set it before there are users: {HINT}"
)


# Tokens in the host's log


def take_token(scope: MutableMapping[str, Any]) -> str | None:
    """Takes the query's `token` and hides it in the scope, because hosts log URLs from there."""
    query: bytes = scope.get("query_string", b"")
    if b"=" not in query:
        return None
    token: str | None = None
    parts = query.decode("latin-1").split("&")
    for index, part in enumerate(parts):
        name, _, value = part.partition("=")
        if _is_token(name):
            token = unquote_plus(value) if token is None else token
            parts[index] = f"token={HIDDEN}"
    if token is not None:
        scope["query_string"] = "&".join(parts).encode("latin-1")
    return token


class TokenFilter(logging.Filter):
    """Hides tokens in log lines of a server that has copied the scope, or logs it before the application sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_without_token(value) for value in record.args)
        return True


def _without_token(value: Any) -> Any:
    if isinstance(value, int | float) or "=" not in (text := str(value)):
        return value
    return _PARAMETER.sub(_hidden_parameter, text)


def _hidden_parameter(found: re.Match[str]) -> str:
    """A token, or the signature of a link, without its value."""
    if _is_token(found["name"]):
        return f"token={HIDDEN}"
    return f"signature={HIDDEN}" if unquote_plus(found["name"]) == "signature" else found[0]


def _is_token(name: str) -> bool:
    return unquote_plus(name) == "token"


def hide_tokens() -> None:
    """Adds the filter to the loggers of known servers, once."""
    for name in HOST_LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(present, TokenFilter) for present in logger.filters):
            logger.addFilter(TokenFilter())


# The host's stop


class _Watch(Struct):
    waiting: int = 0
    task: asyncio.Task[None] | None = None


_WATCHES: Final[WeakKeyDictionary[EventTail, _Watch]] = WeakKeyDictionary()


@contextmanager
def ending_with_host(live: EventTail) -> Iterator[None]:
    """While the block runs, watches for the host's stop, and then ends all live streams and waits."""
    watch = _WATCHES.setdefault(live, _Watch())
    watch.waiting += 1
    if watch.task is None:
        watch.task = asyncio.create_task(_watch_host(live), name="ficha host watch")
    try:
        yield
    finally:
        watch.waiting -= 1
        if watch.waiting == 0:
            watch.task.cancel()
            watch.task = None


async def _watch_host(live: EventTail) -> None:
    while not _host_stops():  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(STOP_SEEN_S)
    live.close()


def _host_stops() -> bool:
    """Whether uvicorn was told to stop. It waits for open requests first and notifies the application only after them,
    but its handler of SIGTERM is a method of the server object, which has the flag `should_exit`."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True


# A secret of this process alone


class ProcessSecret:
    """Sees to it that only one process serves a database without FICHA_SECRET: another one would refuse the tokens and
    cursors of the first. The process holds a duty in the database, which expires a few seconds after it ends."""

    def __init__(self, secret: str) -> None:
        self._digest = hashlib.sha256(b"ficha: owner of a secret, 1" + secret.encode()).hexdigest()[:32]
        self._task: asyncio.Task[None] | None = None

    @property
    def _owner(self) -> str:
        return f"{socket.gethostname()} {os.getpid()} {self._digest}"

    async def hold(self, app: Ficha) -> None:
        """Takes the duty and keeps it; raises SettingError if another process has it."""
        first = outcome = await self._elect(app)
        while not self._is_ours(outcome):
            if outcome.expires_at > first.expires_at and outcome.owner == first.owner:
                raise SettingError(
                    f"FICHA_SECRET is not set, and another process ({_process(outcome.owner)}) serves this database "
                    "without it too; the two would refuse each other's tokens and cursors. Set the same FICHA_SECRET "
                    f"for all processes; {HINT}"
                )
            if _has_died(outcome.owner):
                await app.engine.call(Elect(SECRET_DUTY, outcome.owner, 0))
            else:
                await asyncio.sleep(SECRET_RENEWED_S / 10)
            outcome = await self._elect(app)
        self._task = asyncio.create_task(self._renew(app), name="ficha process secret")

    async def release(self, app: Ficha) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(StoreError, RuntimeError):
                await app.engine.call(Elect(SECRET_DUTY, self._owner, 0))

    async def _renew(self, app: Ficha) -> None:
        while app.is_open:
            await asyncio.sleep(SECRET_RENEWED_S)
            with suppress(StoreError, RuntimeError):
                if not self._is_ours(outcome := await self._elect(app)):
                    log.error("%s Another process (%s) serves without it too.", NO_SECRET, _process(outcome.owner))

    async def _elect(self, app: Ficha) -> Elected:
        outcome = await app.engine.call(Elect(SECRET_DUTY, self._owner, int(SECRET_HELD_S * 1_000)))
        assert isinstance(outcome, Elected)
        return outcome

    def _is_ours(self, outcome: Elected) -> bool:
        """Whether the owner has this process's secret: it is this process, or forked with it from the one that made
        it."""
        return outcome.leads or outcome.owner.endswith(self._digest)


def _process(owner: str) -> str:
    host, pid, _ = owner.split(" ")
    return f"{pid} on {host}"


def _has_died(owner: str) -> bool:
    """Whether the owner was a process of this machine and is gone. False where that cannot be known."""
    host, pid, _ = owner.split(" ")
    if os.name != "posix" or host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
