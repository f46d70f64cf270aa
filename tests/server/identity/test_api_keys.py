"""API keys on real databases: who they are, how often the database is asked, and how soon a key that was taken back is
refused."""

import asyncio
import logging
from typing import Any

import pytest

from ficha import Ficha, Plan
from ficha.api_key_text import _checksum, hint_of, new_secret
from ficha.engine.committer import CommitLimits
from ficha.errors import RateLimited
from ficha.server.identity import Caller, Identity, api_keys
from ficha.store.base import Unavailable
from ficha.store.memory import MemoryStore
from tests.engine.instrumented_store import InstrumentedStore
from tests.server.identity.conftest import Make, Place, Seconds
from tests.server.identity.refusing import PEER, background, refusal, shown

pytestmark = pytest.mark.long_on("postgresql")

USING = "ficha api key use"


async def new_key(app: Ficha, name: str = "ci", **options: Any) -> tuple[str, str]:
    """The text of a fresh key, and its id."""
    new = await app.create_api_key(name, **{"scope": "service"} | options)
    return new.secret, new.key.id


async def test_a_key_is_its_scope_and_its_account(place: Place, identity_with: Make) -> None:
    app, _ = await place.open()
    await app.open_account("ana")
    identity = identity_with(app)
    for scope, account in (("user", "ana"), ("service", None), ("admin", None), ("viewer", None)):
        secret, key_id = await new_key(app, scope, scope=scope, account=account)
        caller = await shown(identity, secret)
        assert caller == Caller(scope, account, None, f"key {hint_of(secret)}", key_id)
        assert secret not in repr(caller)


async def test_a_mistyped_key_is_refused_without_a_question(place: Place, identity_with: Make) -> None:
    app, store = await place.open()
    identity = identity_with(app)
    secret, _ = await new_key(app)
    store.reads.clear()
    groups = store.groups
    wrong = [secret[:at] + ("a" if letter != "a" else "b") + secret[at + 1 :] for at, letter in enumerate(secret)]
    wrong += [secret[:-1], secret + "a", secret[:-6], secret.upper(), "ficha_", "ficha_root_" + secret[14:]]
    for number, text in enumerate(wrong):
        await refusal(identity, text, peer=f"198.51.100.{number}")
    assert (store.reads.total(), store.groups) == (0, groups)
    assert "checksum" in (await refusal(identity, wrong[-6])).message
    assert (await shown(identity, secret)).scope == "service"


async def test_a_key_that_is_unknown_or_revoked_is_asked_about_each_time(place: Place, identity_with: Make) -> None:
    app, store = await place.open()
    identity = identity_with(app)
    revoked, key_id = await new_key(app)
    await app.revoke_api_key(key_id)
    for secret, words in ((new_secret("admin"), "is unknown"), (revoked, "revoked")):
        store.reads.clear()
        for asked in range(1, 4):
            assert words in (await refusal(identity, secret)).message
            assert store.reads.total() == asked


async def test_a_busy_key_costs_one_question_in_two_seconds(
    place: Place, identity_with: Make, seconds: Seconds
) -> None:
    app, store = await place.open()
    identity = identity_with(app)
    secret, _ = await new_key(app)
    store.reads.clear()
    await asyncio.gather(*(shown(identity, secret) for _ in range(50)))
    assert store.reads["GetApiKey"] == 1
    seconds.advance(1.9)
    await asyncio.gather(*(shown(identity, secret) for _ in range(50)))
    assert store.reads["GetApiKey"] == 1
    seconds.advance(0.1)
    await asyncio.gather(*(shown(identity, secret) for _ in range(50)))
    assert store.reads["GetApiKey"] == 2


async def test_a_revoked_key_is_refused_here_at_once_and_elsewhere_within_two_seconds(
    place: Place, identity_with: Make, seconds: Seconds
) -> None:
    (here, _), (elsewhere, _) = await place.open(), await place.open()
    identities = identity_with(here), identity_with(elsewhere)
    secret, key_id = await new_key(here)
    other, _ = await new_key(here, "other")
    for identity in identities:
        await shown(identity, secret)
        await shown(identity, other)
    seconds.advance(0.5)
    await here.revoke_api_key(key_id)
    identities[0].forget(key_id)
    assert "revoked" in (await refusal(identities[0], secret)).message
    seconds.advance(1.4)
    assert (await shown(identities[1], secret)).key_id == key_id
    seconds.advance(0.1)
    assert "revoked" in (await refusal(identities[1], secret)).message
    for identity in identities:
        await shown(identity, other)


async def test_an_answer_from_before_the_revocation_is_not_remembered(
    place: Place, identity_with: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that was under way when the key was revoked may still say that it lives."""
    app, _ = await place.open()
    identity = identity_with(app)
    secret, key_id = await new_key(app)
    answered, deliver, ask = asyncio.Event(), asyncio.Event(), app.api_key

    async def slowly(text: str) -> Any:
        answer = await ask(text)
        answered.set()
        await deliver.wait()
        return answer

    with monkeypatch.context() as slow:
        slow.setattr(app, "api_key", slowly)
        early = asyncio.create_task(shown(identity, secret))
        await answered.wait()
    await app.revoke_api_key(key_id)
    identity.forget(key_id)
    assert "revoked" in (await refusal(identity, secret)).message
    deliver.set()
    assert (await early).key_id == key_id
    assert "revoked" in (await refusal(identity, secret)).message


async def test_a_caller_has_the_time_at_which_the_key_expires(place: Place, identity_with: Make) -> None:
    app, _ = await place.open()
    identity = identity_with(app)
    for ttl_s in (60, None):
        made = await app.create_api_key(f"for {ttl_s}", scope="service", ttl_s=ttl_s)
        caller = await identity.caller(f"Bearer {made.secret}", peer=PEER)
        assert caller.expires_at == (None if made.key.expires_at is None else made.key.expires_at.timestamp())
        assert (caller.expires_at is None) == (ttl_s is None)


async def test_an_expired_key_is_refused(place: Place, identity_with: Make, seconds: Seconds) -> None:
    app, _ = await place.open()
    identity = identity_with(app)
    secret, _ = await new_key(app, ttl_s=60)
    await shown(identity, secret)
    for clock in (place.clock, seconds):
        clock.advance(61)
    assert "expired" in (await refusal(identity, secret)).message


async def test_use_is_written_down_in_the_background_once_a_minute(
    place: Place, identity_with: Make, seconds: Seconds
) -> None:
    app, store = await place.open()
    identity = identity_with(app)
    secret, _ = await new_key(app)
    assert [key.last_used_at for key in (await app.api_keys()).items] == [None]
    used = []
    for _ in range(3):
        groups = store.groups
        for _ in range(20):
            await shown(identity, secret)
            seconds.advance(2.9)
        await background(USING)
        assert store.groups == groups + 1
        used += [key.last_used_at for key in (await app.api_keys()).items]
        seconds.advance(2)
        place.clock.advance(60)
    assert used == sorted(set(used)), "each is later than the one before"
    assert None not in used


async def test_a_refused_key_is_not_in_use(place: Place, identity_with: Make) -> None:
    app, store = await place.open()
    identity = identity_with(app)
    secret, key_id = await new_key(app)
    await app.revoke_api_key(key_id)
    groups = store.groups
    await refusal(identity, secret)
    await refusal(identity, new_secret("user"))
    await background(USING)
    assert store.groups == groups


@pytest.fixture
async def faulty() -> Any:
    """An application that gives up at once when its database is away."""
    store = InstrumentedStore(MemoryStore())
    app = Ficha(store=store, plans=[Plan("free")], sweep_by_itself=False, commit_limits=CommitLimits(give_up_s=0.0))
    async with app:
        yield app, store


async def test_that_use_cannot_be_written_down_troubles_nobody(
    faulty: tuple[Ficha, InstrumentedStore], identity_with: Make, caplog: pytest.LogCaptureFixture
) -> None:
    app, store = faulty
    identity = identity_with(app)
    secret, key_id = await new_key(app)
    store.always = Unavailable("the disk is full")
    with caplog.at_level(logging.DEBUG, "ficha.server"):
        assert (await shown(identity, secret)).key_id == key_id
        await background(USING)
    [record] = [record for record in caplog.records if record.name == "ficha.server"]
    assert (record.levelname, key_id in record.getMessage()) == ("DEBUG", True)
    assert secret not in caplog.text


async def test_a_database_that_is_away_is_no_failed_attempt(
    faulty: tuple[Ficha, InstrumentedStore], identity_with: Make
) -> None:
    app, store = faulty
    identity = identity_with(app, attempts_per_hour=1)
    secret, _ = await new_key(app)
    store.read_fault = Unavailable("gone")
    for _ in range(3):
        with pytest.raises(Unavailable):
            await shown(identity, secret)
    store.read_fault = None
    assert (await shown(identity, secret)).scope == "service"
    await refusal(identity, new_secret("user"))


async def test_one_who_leaves_takes_nothing_from_others_who_ask_about_the_same_key(
    faulty: tuple[Ficha, InstrumentedStore], identity_with: Make
) -> None:
    app, store = faulty
    identity = identity_with(app)
    secret, key_id = await new_key(app)
    store.read_gate.clear()
    store.reads.clear()
    first, second = (asyncio.create_task(shown(identity, secret)) for _ in range(2))
    await store.until(lambda: store.reads.total() == 1)
    first.cancel()
    await asyncio.wait([first])
    store.read_gate.set()
    assert (await second).key_id == key_id
    assert store.reads.total() == 1


async def test_closing_ends_what_is_under_way(faulty: tuple[Ficha, InstrumentedStore], identity_with: Make) -> None:
    app, store = faulty
    identity = identity_with(app)
    secret, _ = await new_key(app)
    store.gate.clear()
    await shown(identity, secret)
    async with asyncio.timeout(40):
        await identity.close()
    assert not identity._keys._use_tasks
    store.gate.set()


async def test_memory_is_bounded(
    faulty: tuple[Ficha, InstrumentedStore], identity_with: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, store = faulty
    monkeypatch.setattr(api_keys, "MAX_KEYS", 2)
    identity = identity_with(app)
    keys = [(await new_key(app, name))[0] for name in "abc"]
    store.reads.clear()
    for secret in (*keys, keys[2], keys[1], keys[0]):
        await shown(identity, secret)
    assert store.reads["GetApiKey"] == 4, "all were asked about once, and the first again because it was forgotten"


async def test_attempts_with_one_hint_are_counted_over_all_addresses_and_the_key_itself_works_on(
    faulty: tuple[Ficha, InstrumentedStore], identity_with: Make
) -> None:
    app, _ = faulty
    identity = identity_with(app)
    secret, key_id = await new_key(app)
    for number in range(100):
        await refusal(identity, like(secret), peer=f"198.51.100.{number}")
    with pytest.raises(RateLimited):
        await shown(identity, like(secret), peer="192.0.2.200")
    await refusal(identity, new_secret("service"), peer="192.0.2.200")
    assert (await shown(identity, secret, peer=PEER)).key_id == key_id


def like(secret: str) -> str:
    """Another well-formed key of the same hint, as somebody would guess who has seen the hint."""
    text = hint_of(secret) + new_secret("service")[-27:-6]
    return text + _checksum(text)


async def test_two_live_keys_of_one_name_work_side_by_side(place: Place, identity_with: Make) -> None:
    """Rotation: the new one is there before the old one goes."""
    app, _ = await place.open()
    identity: Identity = identity_with(app)
    old, old_id = await new_key(app)
    new, new_id = await new_key(app)
    assert [(await shown(identity, secret)).key_id for secret in (old, new)] == [old_id, new_id]
    await app.revoke_api_key(old_id)
    identity.forget(old_id)
    await refusal(identity, old)
    assert (await shown(identity, new)).key_id == new_id
