"""An account is erased: all that a person gave or got goes, and the money stays. A kill changes nothing of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ficha import AccountClosed, Ficha, File, JobContext, NotFound
from ficha.core import commands as c
from ficha.core.dataset import State
from ficha.core.records import FigureCursor, Leader, Rollup
from ficha.store.base import GetState
from tests.support.shop import World, ledger

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
    [line] = (await app.audit(target="account ana")).items
    assert (line.actor, line.act) == ("boss", "erase_account")


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
