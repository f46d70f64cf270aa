"""An account is erased: all that a person gave or got goes, and the money stays. A kill changes nothing of that."""

from __future__ import annotations

import asyncio
import glob
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from ficha import AccountClosed, Ficha, File, JobContext, NotFound
from ficha.core import commands as c
from ficha.core.dataset import State
from ficha.core.records import FigureCursor, Leader, Rollup
from ficha.store.base import GetState
from tests.support.shop import World, ledger, shop

WORDS = "harbour"
"""What the person wrote, wherever they could."""


def with_pictures(app: Ficha) -> None:
    @app.tool(pool="cpu", cost=1)
    async def frame(job: JobContext, picture: File) -> dict[str, str]:
        return {}


async def lived(world: World, folder: Path) -> Ficha:
    """A shop in which ana has used everything, and bob something."""
    app = await world.open(with_pictures, files=f"file:{folder}", webhooks=True, allow_addresses=["127.0.0.1"])
    await app.open_account("ana", plan="open", credits=1_000)
    await app.open_account("bob", plan="open", credits=100)
    await app.grant("ana", 5, reason=f"a {WORDS}", key=f"{WORDS}-payment")
    await app.create_api_key(f"{WORDS} laptop", scope="user", account="ana")
    await app.add_webhook("https://127.0.0.1/harbour", account="ana")
    await app.stay_in_session(WORDS, account="ana")
    await app.reserve("ana")
    file = await app.upload("ana", f"{WORDS}.txt", WORDS.encode())
    done = await app.submit(
        "upscale",
        {"image": WORDS},
        account="ana",
        idempotency_key=WORDS,
        session=WORDS,
        correlation_id=WORDS,
    )
    [lease] = await app.claim("gpu", worker="w1")
    await app.save_step(lease, WORDS, {"seen": WORDS})
    await app.checkpoint(lease, "HALF", data={"seen": WORDS})
    await app.finish(lease, result={"of": WORDS})
    await app.submit("frame", {"picture": file.id}, account="ana")
    failed = await app.submit("upscale", {"image": WORDS}, account="ana")
    [lease] = await app.claim("gpu", worker="w1")
    await app.fail(lease, f"the {WORDS} is full")
    await app.submit_batch([("upscale", {"image": WORDS}), ("embed", {"text": WORDS})], account="ana")
    await app.submit("upscale", {"image": "bobs"}, account="bob")
    assert {done.job_id, failed.job_id}
    return app


async def rows(app: Ficha) -> State:
    found = await app.engine.store.read(GetState(texts=True))
    volatile = FigureCursor | Rollup | Leader
    found.keyed = {name: one for name, one in found.keyed.items() if not isinstance(one, volatile)}
    found.workers, found.tallies = {}, {}
    return found


def of_ana(state: State) -> dict[str, Any]:
    """All rows that are hers, or tell of her words."""
    found = msgspec.to_builtins(state)
    return {name: part for name, part in found.items() if WORDS in str(part) or "'ana'" in str(part)}


async def test_nothing_that_a_person_gave_or_got_is_left_and_the_money_is(world: World, tmp_path: Path) -> None:
    app = await lived(world, tmp_path / "files")
    lines = await ledger(app)
    erased = await app.acting("boss").erase("ana")
    state = await rows(app)
    assert WORDS not in str(msgspec.to_builtins(state))
    assert {job.account_id for job in state.jobs.values()} == {"bob"}
    assert (await ledger(app))[: len(lines)] == lines
    assert {(entry.kind, entry.reason) for entry in state.entries if entry.account_id == "ana"} == {
        ("grant", None),
        ("charge", None),
        ("refund", None),
    }
    assert (await app.account("ana")).balance == erased.balance == 1_000, "5 came, 5 were spent on what was done"
    assert erased.cancelled == 3
    assert set(of_ana(state)) <= {"accounts", "entries", "api_keys", "keyed"}
    assert [name for name in state.keyed if "ana" in name] == [("FileUsage", "ana")]
    assert all(key.revoked_at and not key.hint for key in state.api_keys.values())
    assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []
    assert await app.verify() == []
    lines_of_ana = (await app.audit(target="account ana")).items
    assert [(line.actor, line.act) for line in lines_of_ana] == [("boss", "erase_account")]


async def test_audit_lines_lose_a_persons_words_and_nothing_else(world: World, tmp_path: Path) -> None:
    app = await lived(world, tmp_path)
    boss = app.acting("boss")
    await boss.grant("ana", 5, reason=f"the {WORDS}", key=f"{WORDS}-2")
    job = await boss.submit("upscale", {"image": "x"}, account="ana", idempotency_key=f"{WORDS}-3")
    await boss.cancel(job.job_id, reason=f"{WORDS} is closed")
    made = await boss.create_api_key(f"{WORDS} phone", scope="user", account="ana")
    hook = await boss.add_webhook("https://127.0.0.1/harbour", account="ana")
    await boss.grant("bob", 5, reason=f"bob saw the {WORDS}")
    before = [*reversed((await app.audit()).items)]
    await boss.erase("ana")
    after = [*reversed((await app.audit()).items)]
    lost = {"reason", "key", "name", "hint", "host"}
    for old, new in zip(before, after, strict=False):
        is_bobs = old.target == "account bob"
        kept = old.details if is_bobs else {name: one for name, one in old.details.items() if name not in lost}
        assert (new.number, new.at, new.actor, new.act, new.target, new.details) == (
            *(old.number, old.at, old.actor, old.act, old.target),
            kept,
        )
    assert {line.target for line in before} == {
        *("account ana", "account bob", f"job {job.job_id}", f"API key {made.key.id}", f"webhook {hook.webhook.id}")
    }
    assert [(line.actor, line.act, line.target) for line in after[len(before) :]] == [
        ("boss", "erase_account", "account ana"),
        ("system", "erase_words", "account ana"),
    ]
    assert after[-1].details == {"lines": 5}
    assert WORDS not in str([line for line in after if line.target != "account bob"])
    again = await boss.erase("ana")
    assert again.rows == 0


async def dumped(url: str) -> bytes:
    """Everything that the database has: the bytes of its files, or the rows of all its tables."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        return await asyncio.to_thread(lambda: b"".join(Path(name).read_bytes() for name in glob.glob(f"{path}*")))
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'ficha'")
        found = [await connection.fetch(f"SELECT t::text FROM ficha.{name} t") for (name,) in tables]
    finally:
        await connection.close()
    return "\n".join(row[0] for rows_of in found for row in rows_of).encode()


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_an_erased_persons_words_are_in_no_row_and_in_no_byte_of_the_databases_files(url: str) -> None:
    async with shop(url, sweep_by_itself=False) as app:
        await app.open_account("ana", plan="open")
        await app.open_account("bob", plan="open", credits=100)
        boss = app.acting("boss")
        for number in range(60):
            # Rows that grow and move between pages leave their old bytes in free space.
            await boss.grant("ana", 500, reason=f"{WORDS} {number}", key=f"{WORDS}-{number}")
            text = f"{WORDS} " * (number * 20)
            job = await boss.submit("anything", {"text": text}, account="ana", idempotency_key=f"{WORDS}:{number}")
            [lease] = await app.claim("cpu", worker="w1")
            await app.save_step(lease, WORDS, {"seen": text})
            await app.checkpoint(lease, "HALF", data={"seen": text})
            await app.finish(lease, result={"of": text * 2})
            if number % 3 == 0:
                await app.remove_work(job.job_id, account="ana")
            await app.grant("bob", 1, reason="a gift")
        assert WORDS.encode() in await dumped(url)
        await boss.erase("ana")
        # Events are kept in `commits` for a while.
        assert not await app.engine.store.tidy(0)
        assert await app.engine.store.scrub()
        assert WORDS.encode() not in await dumped(url)
        assert await app.verify() == []


async def test_an_erased_account_is_closed_for_everything_new(world: World, tmp_path: Path) -> None:
    app = await lived(world, tmp_path)
    await app.erase("ana")
    before = await rows(app)
    calls = [
        app.submit("upscale", {"image": "x"}, account="ana"),
        app.reserve("ana"),
        app.grant("ana", 5),
        app.change_plan("ana", "open"),
        app.upload("ana", "x.txt", b"x"),
        app.create_api_key("new", scope="user", account="ana"),
        app.add_webhook("https://127.0.0.1/", account="ana"),
        app.stay_in_session("s", account="ana"),
    ]
    for call in calls:
        with pytest.raises(AccountClosed) as refused:
            await call
        assert refused.value.code == "ACCOUNT_CLOSED"
    assert await rows(app) == before
    refusal = (await app.quote("upscale", {"image": "x"}, account="ana")).refusal
    assert refusal is not None
    assert refusal.code == "ACCOUNT_CLOSED"
    await app.adjust("ana", -1_000, reason="paid out")
    assert (await app.account("ana")).balance == 0
    with pytest.raises(NotFound):
        await app.erase("nobody")


async def test_an_erasure_that_is_killed_anywhere_comes_to_the_same_end(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await lived(world, tmp_path)
    call, calls, dies_at = app.engine.call, 0, 0

    class Killed(Exception):
        pass

    async def dying(command: c.Command) -> Any:
        nonlocal calls
        calls += 1
        if calls == dies_at:
            raise Killed
        return await call(command)

    monkeypatch.setattr(app.engine, "call", dying)
    deaths = 0
    while True:
        calls, dies_at = 0, dies_at + 1
        try:
            await app.erase("ana")
        except Killed:
            deaths += 1
            assert await app.verify() == []
        else:
            break
        if deaths > 60:
            raise AssertionError("it never ends")
    assert deaths > 3
    state = await rows(app)
    assert WORDS not in str(msgspec.to_builtins(state))
    assert set(of_ana(state)) <= {"accounts", "entries", "api_keys", "keyed"}
    again = await app.erase("ana")
    assert (again.cancelled, again.jobs, again.files, again.rows) == (0, 0, 0, 0)
    assert await rows(app) == state
    assert await app.verify() == []
