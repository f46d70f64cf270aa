"""API keys: made, shown once, used, rotated, expired, revoked; on every database."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import apsw
import msgspec
import pytest

from ficha import Ficha, InvalidArgument, InvalidState, NewApiKey, NotFound, Refused, api_key_text
from ficha.ids import new_id
from ficha.store.base import GetApiKey
from tests.support.shop import World, state

pytestmark = pytest.mark.long_on("postgresql")


@pytest.mark.req("D10")
async def test_a_key_is_known_by_its_secret_which_is_shown_once(world: World, app: Ficha) -> None:
    made = await app.create_api_key("web", account="ana", ttl_s=3_600)
    assert api_key_text.scope_of(made.secret) == "user"
    assert made.key.hint == api_key_text.hint_of(made.secret)
    assert (made.key.name, made.key.scope, made.key.account, made.key.state) == ("web", "user", "ana", "live")
    assert made.key.expires_at == made.key.created_at + timedelta(hours=1)
    assert (made.key.revoked_at, made.key.last_used_at) == (None, None)
    assert await app.api_key(made.secret) == made.key
    assert (await app.api_keys()).items == [made.key]
    service, admin = [await app.create_api_key(scope, scope=scope) for scope in ("service", "admin")]
    assert (service.key.account, admin.key.account) == (None, None)
    assert [key.scope for key in (await app.api_keys()).items] == ["admin", "service", "user"]
    for key in (await app.api_keys()).items:
        assert made.secret not in repr(key)
    assert made.secret not in repr(made)
    assert await app.verify() == []


async def test_what_is_no_key_is_not_looked_for_and_an_unknown_one_is_not_found(
    app: Ficha, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    read = app.engine.store.read

    async def heard(query: Any) -> Any:
        # The sweeper reads beside it.
        if isinstance(query, GetApiKey):
            asked.append(query)
        return await read(query)

    monkeypatch.setattr(app.engine.store, "read", heard)
    for odd in ("", "ficha_user_", "x" * 10_000, api_key_text.new_secret("user")[:-1] + "~", None):
        assert await app.api_key(odd) is None
    assert asked == []
    unknown = api_key_text.new_secret("user")
    assert await app.api_key(unknown) is None
    assert asked == [GetApiKey(api_key_text.digest_of(unknown))]


async def test_a_key_ends_by_the_databases_clock_or_by_being_revoked(world: World, app: Ficha) -> None:
    short, long = [await app.create_api_key("ci", account="ana", ttl_s=ttl_s) for ttl_s in (60, None)]
    world.clock.advance(59.999_999)
    assert (await app.api_key(short.secret)).state == "live"
    world.clock.advance(0.000_001)
    assert (await app.api_key(short.secret)).state == "expired"
    revoked = await app.revoke_api_key(long.key.id)
    assert (revoked.state, revoked.revoked_at) == ("revoked", revoked.created_at + timedelta(seconds=60))
    world.clock.advance(1)
    assert await app.revoke_api_key(long.key.id) == revoked
    assert await app.api_key(long.secret) == revoked
    assert (await app.revoke_api_key(short.key.id)).state == "revoked"
    assert [key.state for key in (await app.api_keys()).items] == ["revoked", "revoked"]


async def test_the_last_use_shows_and_changes_nothing_else(world: World, app: Ficha) -> None:
    made = await app.create_api_key("ci", scope="service")
    for seconds in (1, 2):
        world.clock.advance(seconds)
        await app.use_api_key(made.key.id)
    shown = await app.api_key(made.secret)
    assert shown.last_used_at == made.key.created_at + timedelta(seconds=3)
    assert msgspec.structs.replace(shown, last_used_at=None) == made.key
    await app.revoke_api_key(made.key.id)
    assert (await app.api_key(made.secret)).last_used_at == shown.last_used_at


async def test_a_key_is_rotated_with_two_that_live_at_once(app: Ficha) -> None:
    old = await app.create_api_key("ci", account="ana")
    new = await app.create_api_key("ci", account="ana")
    with pytest.raises(InvalidState, match="Revoke one") as refused:
        await app.create_api_key("ci", account="ana")
    assert refused.value.details["live"] == sorted([old.key.id, new.key.id])
    assert {(await app.api_key(one.secret)).state for one in (old, new)} == {"live"}
    await app.revoke_api_key(old.key.id)
    assert (await app.create_api_key("ci", account="ana")).key.state == "live"


async def test_of_many_that_are_made_at_once_two_live(world: World) -> None:
    apps = [await world.open(), await world.open()]
    made = await asyncio.gather(
        *(app.create_api_key("ci", scope="service") for app in apps for _ in range(10)), return_exceptions=True
    )
    assert sum(isinstance(one, NewApiKey) for one in made) == 2
    assert all(isinstance(one, NewApiKey | InvalidState) for one in made)
    assert len((await apps[0].api_keys()).items) == 2


async def test_keys_are_listed_in_pages(app: Ficha) -> None:
    made = [await app.create_api_key(f"key {number}", scope="admin") for number in range(5)]
    first = await app.api_keys(limit=2)
    second = await app.api_keys(after=first.next, limit=2)
    third = await app.api_keys(after=second.next, limit=2)
    listed = [*first.items, *second.items, *third.items]
    assert [key.id for key in listed] == [one.key.id for one in reversed(made)]
    assert third.next is None


async def test_bad_arguments_are_refused_and_nothing_is_made(app: Ficha) -> None:
    cases: list[tuple[Any, type[Refused], str]] = [
        (lambda: app.create_api_key("k"), InvalidArgument, "needs the account"),
        (lambda: app.create_api_key("k", account="nobody"), NotFound, "open it first"),
        (lambda: app.create_api_key("k", scope="admin", account="ana"), InvalidArgument, "Leave the account out"),
        (
            lambda: app.create_api_key("k", scope="root"),
            InvalidArgument,
            "one of user, service, admin, viewer, not 'root'",
        ),
        (lambda: app.create_api_key("", scope="admin"), InvalidArgument, "1 to 255 characters"),
        (lambda: app.create_api_key("a\nb", scope="admin"), InvalidArgument, "control character"),
        (lambda: app.create_api_key("k", scope="admin", ttl_s=-1), InvalidArgument, "from 0 to a hundred years"),
        (lambda: app.create_api_key("k", scope="admin", ttl_s="1"), InvalidArgument, "a number of seconds"),
        (lambda: app.revoke_api_key(new_id()), NotFound, "no API key"),
        (lambda: app.revoke_api_key("k"), NotFound, "an id is a UUID"),
        (lambda: app.use_api_key("k"), NotFound, "an id is a UUID"),
        (lambda: app.api_keys(after="k"), NotFound, "an id is a UUID"),
        (lambda: app.api_keys(limit=0), InvalidArgument, "limit must be"),
        (lambda: app.acting(""), InvalidArgument, "an actor must be"),
        (lambda: app.acting("a\nb"), InvalidArgument, "control character"),
    ]
    before = await state(app)
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            await call()
        assert await state(app) == before


async def dumped(app: Ficha, world: World) -> str:
    """Everything that the database holds, as text."""
    store: Any = app.engine.store
    if world.kind == "memory":
        return repr(store.state)
    if world.kind == "sqlite":
        db = apsw.Connection(store._path)
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return repr([list(db.execute(f"SELECT * FROM {table}")) for table in tables])
    async with store._readers.take() as connection:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'ficha'")
        return repr([await connection.fetch(f"SELECT t::text FROM ficha.{table[0]} t") for table in tables])


@pytest.mark.req("D10")
async def test_a_secret_is_in_no_row_and_in_no_line_of_the_log(
    world: World, app: Ficha, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    boss = app.acting("boss")
    made = [await boss.create_api_key("ci", scope="admin"), await boss.create_api_key("web", account="ana")]
    for one in made:
        await app.api_key(one.secret)
        await app.use_api_key(one.key.id)
    made.append(await boss.create_api_key("ci", scope="admin"))
    with pytest.raises(InvalidState):
        await boss.create_api_key("ci", scope="admin")
    await boss.revoke_api_key(made[0].key.id)
    dump = await dumped(app, world) + caplog.text
    for one in made:
        random = one.secret.removeprefix(one.key.hint)
        assert one.key.id in dump
        assert one.secret not in dump
        assert random not in dump
        assert random[:-6] not in dump


async def test_no_view_and_no_audit_line_shows_a_digest(app: Ficha) -> None:
    made = await app.acting("boss").create_api_key("ci", scope="admin")
    shown = repr([(await app.audit()).items, (await app.api_keys()).items, made])
    assert made.key.hint in shown
    assert api_key_text.digest_of(made.secret) not in shown
