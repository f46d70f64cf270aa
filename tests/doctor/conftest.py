"""What the tests of the doctor share: a deployment of each kind that is well, and a hand that breaks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import apsw
import asyncpg
import pytest

from ficha import Ficha
from ficha.doctor import DoctorLimits, DoctorReport, Finding, examine
from ficha.store.connect import store_for
from tests.support.postgres import new_database
from tests.support.postgres_databases import emptied
from tests.support.shop import shop

SECRET = "qPzR7mWk2vXb9nLs4tYc8hJd3gFa6eUi"  # noqa: S105 (of tests alone)


class Deployment:
    """An application and its database, and what the doctor says of them."""

    def __init__(self, app: Ficha, url: str) -> None:
        self.app = app
        self.url = url
        self.kind = "sqlite" if url.startswith("sqlite") else "postgresql"

    async def report(self, **limits: float) -> DoctorReport:
        return await examine(self.app, DoctorLimits(**limits))  # type: ignore[arg-type]

    async def findings(self, **limits: float) -> dict[str, Finding]:
        """By their codes, without mere notes."""
        report = await self.report(**limits)
        return {finding.code: finding for finding in report.findings if finding.severity != "note"}

    async def execute(self, *statements: str) -> None:
        """Somebody's own hand. Statements name no schema."""
        if self.kind == "sqlite":
            db = apsw.Connection(self.url.removeprefix("sqlite:///"))
            db.set_busy_timeout(10_000)
            with closing(db):
                for statement in statements:
                    db.execute(statement)
            return
        connection = await asyncpg.connect(self.url, server_settings={"search_path": "ficha"})
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Deployment]:
    """A shop whose database and files are well; tests that change rows only."""
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path / 'ficha.db'}"
            await store_for(url).migrate()  # type: ignore[attr-defined]
        else:
            url = await stack.enter_async_context(emptied(request.getfixturevalue("shared_database")))
        yield made(url, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
async def own(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Deployment]:
    """The same with a database of its own, for tests that change more than rows."""
    async with AsyncExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'ficha.db'}"
        if request.param == "postgresql":
            url = await stack.enter_async_context(new_database(request.getfixturevalue("postgres_server")))
        await store_for(url).migrate()  # type: ignore[attr-defined]
        yield made(url, tmp_path)


def made(url: str, folder: Path) -> Deployment:
    app = shop(url, secret=SECRET, files=f"file:{folder / 'files'}", sweep_by_itself=False, sweep_s=3_600)
    return Deployment(app, url)
