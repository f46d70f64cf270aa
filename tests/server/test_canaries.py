"""Secrets: what is put into any input shows up nowhere but in its own place: no log, no answer to others, no other
column."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from uuid import uuid4

import apsw
import asyncpg
import httpx
import pytest

from tests.server.isolation import GUARDED, Tenant
from tests.support.postgres_databases import migrated_database
from tests.support.server_process import SECRET, served

OWN_PLACE = {
    "payload": {("jobs", "payload")},
    "session": {("jobs", "session")},
    "correlation": {("jobs", "correlation_id")},
    "reason": {("jobs", "error"), ("jobs", "user_error"), ("events", "data"), ("commits", "events")},
    "account": set(),
}
"""Where each canary may lie, by what it was put into; those that are not named may lie nowhere."""


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_canary_in_every_input_is_found_in_its_own_place_only(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        path = tmp_path / "ficha.db"
        _walk(f"sqlite:///{path}", lambda: _rows_of_sqlite(path))
    else:
        with migrated_database(request.getfixturevalue("postgres_server")) as url:
            _walk(url, lambda: asyncio.run(_rows_of_postgresql(url)))


def _walk(database: str, rows: object) -> None:
    canaries = {name: f"CANARY{uuid4().hex}" for name in ("payload", "session", "correlation", "reason", "header",
                                                        "query", "path", "token", "key", "body")}  # fmt: skip
    with served(database, "--log", "json") as server:
        tenant = Tenant(server)
        other = Tenant(server)
        with server.client(tenant.key) as user:
            user.headers["Accept"] = "application/json"
            job = user.post(
                "/api/jobs",
                json={
                    "tool": "upscale",
                    "payload": {"image": canaries["payload"]},
                    "session": canaries["session"],
                    "correlation_id": canaries["correlation"],
                },
            ).json()["job_id"]
            user.post(f"/api/jobs/{job}/cancel", json={"reason": canaries["reason"]}).raise_for_status()
            for operation in GUARDED:
                asked = tenant.request(operation, named=False)
                url = asked.pop("url")
                user.request(
                    **asked | {"headers": {**asked.get("headers", {}), "X-Secret": canaries["header"]}},
                    url=f"{url}{'&' if '?' in url else '?'}secret={canaries['query']}",
                )
                user.request(operation.method, f"/api/{canaries['path']}")
                user.request(operation.method, url, content=f'{{"{canaries["body"]}": '.encode(),
                             headers={"Content-Type": "application/json"})  # fmt: skip
            for token in (f"ficha_admin_{canaries['key']}", f"eyJ.{canaries['token']}.x", canaries["token"]):
                with server.client(token) as stranger:
                    assert stranger.get("/api/account").status_code == 401
        told = _told_to(server.url, other.key)
        server.stop()
        log = "".join(server.lines)
        keys = [tenant.key, other.key, server.admin, server.service]

    found_rows = rows()  # type: ignore[operator]
    for name, canary in canaries.items():
        for form in (canary, base64.b64encode(canary.encode()).decode()):
            assert form not in log, f"the {name} is in the log"
            assert form not in told, f"the {name} was told to somebody else"
            places = {(table, column) for table, column, value in found_rows if form in value}
            assert places <= OWN_PLACE.get(name, set()), f"the {name} lies in {places}"
    for secret in (*keys, SECRET):
        assert secret not in log
        assert not [place for *place, value in found_rows if secret in value]
    assert log.count('"request"') > len(GUARDED)


def _told_to(url: str, key: str) -> str:
    """All that somebody else gets to read."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False) as client:
        answers = [
            client.request(operation.method, operation.path.replace("{", "").replace("}", ""),
                           headers={"Accept": "application/json"}, json={} if operation.body else None)
            for operation in GUARDED
        ]  # fmt: skip
        return "".join(answer.text + json.dumps(dict(answer.headers)) for answer in answers)


def _rows_of_sqlite(path: Path) -> list[tuple[str, str, str]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = []
    for (table,) in list(connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")):
        columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")]
        for row in connection.execute(f"SELECT * FROM {table}"):
            found += [(table, column, str(value)) for column, value in zip(columns, row, strict=True)]
    connection.close()
    return found


async def _rows_of_postgresql(url: str) -> list[tuple[str, str, str]]:
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'ficha'")
        return [
            (table["tablename"], column, str(value))
            for table in tables
            for row in await connection.fetch(f'SELECT * FROM ficha."{table["tablename"]}"')
            for column, value in row.items()
        ]
    finally:
        await connection.close()
