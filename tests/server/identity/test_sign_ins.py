"""Sign-ins: a cookie's text is a signed reference, which counts as long as what was signed in with."""

import asyncio
import base64
import time

import pytest

from ficha.errors import Refused
from ficha.server.identity import Caller, Identity
from ficha.server.identity.sign_ins import SignIns
from tests.server.identity.conftest import NOON, Make, Place, Seconds
from tests.server.identity.refusing import PEER
from tests.server.identity.signing import AUDIENCE, ISSUER, JWT_SECRET, SERVER_SECRET, shared_token

pytestmark = pytest.mark.long_on("postgresql")


async def refused(identity: Identity, cookie: str, *, peer: str = PEER) -> Refused:
    with pytest.raises(Refused) as caught:
        await identity.caller(None, cookie=cookie, peer=peer)
    assert len(cookie) < 12 or cookie not in caught.value.message
    return caught.value


async def test_a_sign_in_by_key_is_that_key_and_its_cookie_does_not_hold_it(place: Place, identity_with: Make) -> None:
    app, store = await place.open()
    identity = identity_with(app)
    for scope in ("admin", "viewer", "service"):
        made = await app.create_api_key(scope, scope=scope)
        caller, cookie = await identity.sign_in(made.secret, peer=PEER)
        assert await identity.caller(None, cookie=cookie, peer=PEER) == caller
        assert (caller.scope, caller.key_id, caller.expires_at) == (scope, made.key.id, NOON + 43_200)
        body = base64.urlsafe_b64decode(cookie.split(".")[0] + "==").decode()
        assert made.secret[-20:] not in cookie + body
    store.reads.clear()
    await identity.caller(None, cookie=cookie, peer=PEER)
    assert store.reads.total() == 0, "the key is cached"


async def test_it_lasts_for_its_time_and_no_longer(place: Place, identity_with: Make, seconds: Seconds) -> None:
    app, _ = await place.open()
    identity = identity_with(app, sign_in_s=60.0)
    made = await app.create_api_key("a", scope="admin")
    _, cookie = await identity.sign_in(made.secret, peer=PEER)
    seconds.advance(59.999)
    assert (await identity.caller(None, cookie=cookie, peer=PEER)).scope == "admin"
    seconds.advance(0.001)
    problem = await refused(identity, cookie)
    assert (problem.code, problem.message) == (
        "UNAUTHENTICATED",
        "the sign-in has ended; sign in again; nothing was changed.",
    )


async def test_whoever_stays_is_sent_away_when_it_ends(place: Place, identity_with: Make) -> None:
    app, _ = await place.open()
    identity = identity_with(app, sign_in_s=60.0)
    made = await app.create_api_key("a", scope="admin")
    _, cookie = await identity.sign_in(made.secret, peer=PEER)
    caller = await identity.caller(None, cookie=cookie, peer=PEER)
    assert caller.expires_at == NOON + 60 < time.time()
    with pytest.raises(Refused, match="expired"):
        async with identity.while_valid(caller):
            await asyncio.Event().wait()


async def test_it_ends_with_its_key_at_once_here_and_within_two_seconds_elsewhere(
    place: Place, identity_with: Make, seconds: Seconds
) -> None:
    (here, _), (elsewhere, _) = await place.open(), await place.open()
    identities = identity_with(here), identity_with(elsewhere)
    made = await here.create_api_key("a", scope="admin")
    _, cookie = await identities[0].sign_in(made.secret, peer=PEER)
    for identity in identities:
        await identity.caller(None, cookie=cookie, peer=PEER)
    await here.revoke_api_key(made.key.id)
    identities[0].forget(made.key.id)
    assert "revoked" in (await refused(identities[0], cookie)).message
    seconds.advance(2.0)
    assert "revoked" in (await refused(identities[1], cookie)).message


async def test_it_ends_when_its_key_expires(place: Place, identity_with: Make, seconds: Seconds) -> None:
    app, _ = await place.open()
    identity = identity_with(app, sign_in_s=10**9)
    made = await app.create_api_key("a", scope="admin", ttl_s=30)
    caller, cookie = await identity.sign_in(made.secret, peer=PEER)
    assert made.key.expires_at is not None
    assert caller.expires_at == int(made.key.expires_at.timestamp())
    place.clock.advance(30)
    seconds.advance(2.0)
    assert "expired" in (await refused(identity, cookie)).message


async def test_a_sign_in_by_jwt_does_not_outlive_it(identity_with: Make, seconds: Seconds) -> None:
    accepting = {"jwt_secret": JWT_SECRET, "jwt_audience": AUDIENCE, "jwt_issuer": ISSUER}
    now = int(time.time())
    identity = identity_with(noon=now, **accepting)
    caller, cookie = await identity.sign_in(shared_token(sub="ana", exp=now + 60), peer=PEER)
    assert caller == Caller("user", "ana", name="jwt ana", expires_at=now + 60)
    seconds.advance(59.999)
    assert await identity.caller(None, cookie=cookie, peer=PEER) == caller
    assert "accepts no JWTs" in (await refused(identity_with(noon=now), cookie)).message
    seconds.advance(0.001)
    assert "ended" in (await refused(identity, cookie)).message


async def test_every_process_with_the_secret_takes_it_and_no_other(place: Place, identity_with: Make) -> None:
    app, _ = await place.open()
    made = await app.create_api_key("a", scope="admin")
    _, cookie = await identity_with(app).sign_in(made.secret, peer=PEER)
    assert (await identity_with(app).caller(None, cookie=cookie, peer=PEER)).scope == "admin"
    await refused(identity_with(app, secret=SERVER_SECRET[::-1]), cookie)


async def test_a_changed_cookie_is_refused_and_counts_as_a_failed_attempt(place: Place, identity_with: Make) -> None:
    app, store = await place.open()
    identity = identity_with(app, attempts_per_hour=3)
    made = await app.create_api_key("a", scope="user", account=(await app.open_account("ana")).id)
    _, cookie = await identity.sign_in(made.secret, peer=PEER)
    body, signature = cookie.split(".")
    others = base64.urlsafe_b64encode(b'["0197f2a0-0000-7000-8000-000000000001",null,9000000000]').decode().rstrip("=")
    store.reads.clear()
    for forged in (f"{others}.{signature}", f"{body}.{signature[:-1]}", body, "", ".", "é.é"):
        problem = await refused(identity, forged)
        assert problem.code in ("UNAUTHENTICATED", "RATE_LIMITED")
    assert problem.code == "RATE_LIMITED"
    assert store.reads.total() == 0
    assert (await identity.caller(None, cookie=cookie, peer=PEER)).account == "ana"


async def test_one_that_has_ended_is_no_attempt(place: Place, identity_with: Make, seconds: Seconds) -> None:
    app, _ = await place.open()
    identity = identity_with(app, attempts_per_hour=1, sign_in_s=1.0)
    made = await app.create_api_key("a", scope="admin")
    _, cookie = await identity.sign_in(made.secret, peer=PEER)
    seconds.advance(1.0)
    for _ in range(3):
        assert (await refused(identity, cookie)).code == "UNAUTHENTICATED"


async def test_a_failed_sign_in_counts_as_a_failed_attempt_of_the_address(place: Place, identity_with: Make) -> None:
    app, _ = await place.open()
    identity = identity_with(app, attempts_per_hour=2)
    codes = []
    for text in ("guess", "ficha_admin_guess", "a.b.c"):
        with pytest.raises(Refused) as caught:
            await identity.sign_in(text, peer=PEER)
        codes.append(caught.value.code)
        assert text not in caught.value.message
    assert codes == ["UNAUTHENTICATED", "UNAUTHENTICATED", "RATE_LIMITED"]
    with pytest.raises(Refused) as caught:
        await identity.caller("Bearer guess", peer=PEER)
    assert caught.value.code == "RATE_LIMITED"


async def test_a_job_token_is_no_sign_in(shared: Identity) -> None:
    token = shared.job_tokens.issue("0197f2a0-0000-7000-8000-000000000001", "ana").token
    with pytest.raises(Refused) as caught:
        await shared.sign_in(token, peer=PEER)
    assert caught.value.code == "FORBIDDEN"


@pytest.mark.parametrize("name", ["ana", "ana/bob", "ã·\N{OLD ITALIC LETTER A}" * 80, 'a"b\\c'])
def test_any_account_survives_the_cookie(name: str) -> None:
    sign_ins = SignIns(SERVER_SECRET, 60.0, lambda: NOON)
    cookie, made = sign_ins.issue(Caller("user", name, expires_at=NOON + 30.9))
    assert sign_ins.read(cookie) == made
    assert (made.account, made.ends_at) == (name, NOON + 30)
    assert len(cookie) < 4_000
    assert cookie.replace(".", "").replace("-", "").replace("_", "").isalnum()
