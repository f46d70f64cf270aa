"""Tokens of one job: good for that job, for a while, and for nothing else."""

import time
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from msgspec.structs import replace

from ficha.errors import InvalidArgument, Refused
from ficha.server.identity import Caller, Identity
from ficha.server.identity.job_tokens import KIND, JobTokens
from ficha.server.identity.settings import JOB_AUDIENCE
from tests.server.identity.conftest import Make, Place, Seconds
from tests.server.identity.refusing import PEER, refusal, shown
from tests.server.identity.signing import AUDIENCE, ISSUER, JWT_SECRET, SERVER_SECRET, claims, shared_token

JOB = "0197f2a0-0000-7000-8000-000000000001"
HOLDER = Caller("job", "ana", JOB, name=f"job token {JOB}")


async def test_a_token_is_for_its_job_in_the_header_and_in_the_address(shared: Identity) -> None:
    issued = shared.job_tokens.issue(JOB, "ana")
    text, expires_at = issued.token, issued.expires_at
    assert await shown(shared, text) == HOLDER
    caller = await shared.caller(None, token=text, peer=PEER)
    assert (replace(caller, expires_at=None), caller.expires_at) == (HOLDER, expires_at.timestamp())
    assert abs(expires_at - datetime.now(UTC) - timedelta(minutes=15)) < timedelta(seconds=5)


async def test_every_process_with_the_secret_takes_it_and_no_other(identity_with: Make) -> None:
    text = identity_with().job_tokens.issue(JOB, "ana").token
    assert await shown(identity_with(), text) == HOLDER
    await refusal(identity_with(secret=SERVER_SECRET[::-1]), text)


async def test_it_ends_with_the_key_that_it_was_made_with(place: Place, identity_with: Make, seconds: Seconds) -> None:
    (here, store), (elsewhere, _) = await place.open(), await place.open()
    identities = identity_with(here), identity_with(elsewhere)
    key = (await here.create_api_key("ci", scope="service")).key
    by = Caller("service", key_id=key.id)
    text = identities[0].job_tokens.issue(JOB, "ana", by=by).token
    for identity in identities:
        assert (await shown(identity, text)).key_id == key.id
    store.reads.clear()
    await shown(identities[0], text)
    assert store.reads.total() == 0, "the key is cached"
    await here.revoke_api_key(key.id)
    identities[0].forget(key.id)
    assert "revoked" in (await refusal(identities[0], text)).message
    seconds.advance(2.0)
    assert "revoked" in (await refusal(identities[1], text)).message
    with pytest.raises(Refused, match="revoked"):
        await identities[1].caller(None, token=text, peer=PEER)


async def test_it_expires_no_later_than_what_it_was_made_with(shared: Identity) -> None:
    ends_at = int(time.time()) + 60
    bounded, unbounded = (
        shared.job_tokens.issue(JOB, "ana", by=Caller("user", "ana", expires_at=expires_at)).expires_at.timestamp()
        for expires_at in (ends_at + 0.5, None)
    )
    assert bounded == ends_at
    assert unbounded > ends_at + 700


@pytest.mark.parametrize("ttl_s", [0, -1, 86_400.1, float("nan"), float("inf")])
def test_it_lives_for_a_day_at_most(shared: Identity, ttl_s: float) -> None:
    with pytest.raises(InvalidArgument):
        shared.job_tokens.issue(JOB, "ana", ttl_s)


@pytest.mark.parametrize("ttl_s", [5e-324, 0.1, 1, 900.0, 86_400])
async def test_it_lives_as_long_as_is_said(shared: Identity, ttl_s: float) -> None:
    issued = shared.job_tokens.issue(JOB, "ana", ttl_s)
    text, expires_at = issued.token, issued.expires_at
    assert (await shown(shared, text)).job == JOB
    assert -20 <= expires_at.timestamp() - time.time() - ttl_s <= 1


async def test_an_expired_one_is_refused(shared: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    past = time.time() - 1_000
    with monkeypatch.context() as patched:
        patched.setattr("ficha.server.identity.job_tokens.time.time", lambda: past)
        text = shared.job_tokens.issue(JOB, "ana").token
    assert "expired" in (await refusal(shared, text)).message


async def test_a_job_token_is_no_users_token_and_the_other_way_round_even_with_one_secret(
    identity_with: Make,
) -> None:
    """Whoever sets the same secret for both has still two keys, two types and two audiences."""
    both = identity_with(secret=JWT_SECRET, jwt_secret=JWT_SECRET, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
    text = both.job_tokens.issue(JOB, "ana").token
    assert (await shown(both, text)).scope == "job"
    assert (await shown(both, shared_token())).scope == "user"
    as_job = {"aud": JOB_AUDIENCE, "iss": "ficha", "job": JOB}
    for header in ({"alg": "HS256"}, {"alg": "HS256", "typ": KIND}, {"alg": "HS256", "typ": "JWT"}):
        for changes in (as_job, as_job | {"aud": [AUDIENCE, JOB_AUDIENCE]}, as_job | {"iss": ISSUER}):
            await refusal(both, shared_token(header, **changes))
    await refusal(both, shared_token({"alg": "HS256", "typ": KIND}))


async def test_the_derived_key_signs_no_users_token(identity_with: Make) -> None:
    both = identity_with(secret=JWT_SECRET, jwt_secret=JWT_SECRET, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
    derived = JobTokens(JWT_SECRET)._key
    assert JWT_SECRET not in derived
    await refusal(both, jwt.encode(claims(), derived, "HS256"))
    for leave_out in ("job", "sub", "exp", "aud", "iss"):
        good = claims(aud=JOB_AUDIENCE, iss="ficha", job=JOB)
        assert (await shown(both, jwt.encode(good, derived, "HS256", headers={"typ": KIND}))).scope == "job"
        del good[leave_out]
        await refusal(both, jwt.encode(good, derived, "HS256", headers={"typ": KIND}))
    await refusal(both, jwt.encode(claims(iss="ficha", job=JOB), derived, "HS256", headers={"typ": KIND}))


async def test_nothing_else_may_be_in_the_address(shared: Identity) -> None:
    text = shared.job_tokens.issue(JOB, "ana").token
    for token in (shared_token(), "ficha_user_" + "a" * 33, "", "a.b.c", "x" * 100_000):
        with pytest.raises(Refused) as caught:
            await shared.caller(None, token=token, peer=PEER)
        assert caught.value.code == "UNAUTHENTICATED"
    with pytest.raises(Refused, match=r"only a job token may be sent as \?token="):
        await shared.caller(None, token=shared_token(), peer=PEER)
    with pytest.raises(Refused, match="not both"):
        await shared.caller(f"Bearer {text}", token=text, peer=PEER)


def test_its_text_is_not_shown_by_accident(shared: Identity) -> None:
    issued = shared.job_tokens.issue(JOB, "ana")
    assert issued.token not in repr(issued)
