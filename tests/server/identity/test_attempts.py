"""Failed attempts: counted by address and by a key's hint, and never held against whoever has a good credential."""

import pytest

from ficha.errors import RateLimited, Refused
from ficha.server.identity import Identity
from ficha.server.identity.attempts import MAX_SUBJECTS, Attempts, network
from tests.server.identity.conftest import Make, Seconds
from tests.server.identity.refusing import PEER, refusal, shown
from tests.server.identity.signing import AUDIENCE, ISSUER, JWT_SECRET, shared_token

OTHER = "192.0.2.2"


async def test_the_101st_failed_attempt_in_an_hour_is_too_many(shared: Identity, seconds: Seconds) -> None:
    for _ in range(100):
        await refusal(shared, "nonsense")
        seconds.advance(1)
    with pytest.raises(RateLimited) as caught:
        await shown(shared, "nonsense")
    assert caught.value.retryable
    assert caught.value.retry_after_s == 3_500
    assert "nonsense" not in caught.value.message
    await refusal(shared, "nonsense", peer=OTHER)


async def test_whoever_has_a_good_credential_is_let_in_whatever_others_did_at_the_same_address(
    shared: Identity, seconds: Seconds
) -> None:
    for _ in range(100):
        await refusal(shared, "nonsense")
    assert (await shown(shared, shared_token())).account == "ana"
    with pytest.raises(RateLimited):
        await shown(shared, "nonsense")
    assert (await shown(shared, shared_token())).account == "ana"


async def test_an_hour_later_attempts_are_heard_out_again_one_by_one(shared: Identity, seconds: Seconds) -> None:
    for _ in range(100):
        await refusal(shared, "nonsense")
        seconds.advance(36)
    # The first was an hour ago, and the one that takes its place is the hundredth again.
    await refusal(shared, "nonsense")
    with pytest.raises(RateLimited) as caught:
        await shown(shared, "nonsense")
    assert caught.value.retry_after_s == 36
    seconds.advance(36)
    await refusal(shared, "nonsense")


async def test_what_is_not_heard_out_does_not_prolong_the_wait(shared: Identity, seconds: Seconds) -> None:
    for _ in range(100):
        await refusal(shared, "nonsense")
    for _ in range(59):
        seconds.advance(60)
        with pytest.raises(RateLimited):
            await shown(shared, "nonsense")
    seconds.advance(60)
    await refusal(shared, "nonsense")


async def test_the_limit_is_a_setting(identity_with: Make) -> None:
    identity = identity_with(attempts_per_hour=3, jwt_secret=JWT_SECRET, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
    for text in ("nonsense", shared_token(exp=0), "a.b.c"):
        await refusal(identity, text)
    with pytest.raises(RateLimited):
        await shown(identity, shared_token(exp=0))
    with pytest.raises(RateLimited):
        await identity.caller("Basic YTpi", peer=PEER)
    with pytest.raises(RateLimited):
        await identity.caller(None, token="a.b.c", peer=PEER)  # noqa: S106 (no secret)


async def test_showing_nothing_is_no_attempt(shared: Identity) -> None:
    for _ in range(150):
        with pytest.raises(Refused, match="Authorization: Bearer") as caught:
            await shared.caller(None, peer=PEER)
        assert caught.value.code == "UNAUTHENTICATED"
    await refusal(shared, "nonsense")


def test_a_hint_is_counted_over_all_addresses(seconds: Seconds) -> None:
    attempts = Attempts(100, seconds)
    assert [attempts.failed(f"192.0.2.{number}", "ficha_user_AbC123") for number in range(100)] == [None] * 100
    assert attempts.failed("192.0.2.200", "ficha_user_AbC123") == 3_600
    assert attempts.failed("192.0.2.201", "ficha_user_XyZ789") is None


def test_memory_is_bounded_and_whoever_failed_longest_ago_is_forgotten_first(seconds: Seconds) -> None:
    attempts = Attempts(2, seconds)
    for number in range(MAX_SUBJECTS):
        assert attempts.failed(f"peer {number}") is None
    assert attempts.failed("peer 0") is None
    assert attempts.failed("one more") is None
    assert attempts.failed("peer 0") == 3_600
    assert [attempts.failed("peer 1") for _ in range(3)] == [None, None, 3_600], "it was forgotten to make room"
    assert len(attempts._failed) == MAX_SUBJECTS


@pytest.mark.parametrize(
    ("peer", "counted_as"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
        ("x" * 100_000, "x" * 64),
    ],
)
def test_an_address_of_version_6_counts_as_its_network(peer: str, counted_as: str) -> None:
    assert network(peer) == counted_as
