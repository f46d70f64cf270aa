"""What the tests of identity share: a clock that is moved by hand, identities that are closed at the end, an issuer of
JWTs on the loopback, and applications on fresh databases of each kind whose questions are counted."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha, Plan
from ficha.server.identity import Identity
from ficha.server.settings import Settings
from ficha.store.memory import MemoryStore
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from ficha.testing import ManualClock
from tests.app.conftest import KINDS
from tests.engine.instrumented_store import InstrumentedStore
from tests.server.identity.issuer import Issuer
from tests.server.identity.signing import AUDIENCE, ISSUER, JWT_SECRET, SERVER_SECRET
from tests.support.postgres_databases import emptied

NOON = ManualClock()() // 1_000_000
"""What the wall clock shows that sign-ins go by, and that of a database, before either is moved."""


class Seconds:
    """The process's own clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


Make = Callable[..., Identity]


@pytest.fixture
async def identity_with(seconds: Seconds) -> AsyncIterator[Make]:
    """Makes identities by their settings, for an application that is given or, where no key is asked about, for one
    that is not even open."""
    async with AsyncExitStack() as stack:

        def make(app: Ficha | None = None, *, noon: float = NOON, **given: Any) -> Identity:
            settings = Settings(**{"secret": SERVER_SECRET} | given)
            closed = Ficha("memory:", plans=[Plan("free")])
            identity = Identity(app or closed, settings, clock=seconds, wall_clock=lambda: noon + seconds() - 1_000)
            stack.push_async_callback(identity.close)
            return identity

        yield make


@pytest.fixture
def shared(identity_with: Make) -> Identity:
    """Takes JWTs that are signed with a shared secret."""
    return identity_with(jwt_secret=JWT_SECRET, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer() as issuer:
        yield issuer


@pytest.fixture
def published(identity_with: Make, issuer: Issuer) -> Identity:
    """Takes JWTs that are signed with the keys that the issuer publishes."""
    return identity_with(jwt_jwks_url=issuer.url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)


class Place:
    """A database on a clock that is moved by hand, and applications that use it, each as in a process of its own."""

    def __init__(self, store: Callable[[ManualClock], Any], stack: AsyncExitStack) -> None:
        self.clock = ManualClock()
        self._store = store
        self._stack = stack

    async def open(self) -> tuple[Ficha, InstrumentedStore]:
        store = InstrumentedStore(self._store(self.clock))
        app = Ficha(store=store, plans=[Plan("free")], sweep_by_itself=False, sweep_s=3_600)
        await self._stack.enter_async_context(app)
        # Nobody sweeps: the questions and commits that tests count are those of callers.
        await app.engine.sweeper.stop()
        return app, store


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            memory = MemoryStore()

            def same(clock: ManualClock) -> MemoryStore:
                """One for all: a memory store is its own database."""
                memory.clock = clock
                return memory

            yield Place(same, stack)
        elif request.param == "sqlite":
            path = tmp_path / "ficha.db"
            await SqliteStore(path).migrate()
            yield Place(lambda clock: SqliteStore(path, clock=clock), stack)
        else:
            url = await stack.enter_async_context(emptied(request.getfixturevalue("shared_database")))
            yield Place(lambda clock: PostgresStore(url, clock=clock), stack)
