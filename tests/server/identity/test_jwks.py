"""Published keys: fetched, rotated, taken back, and kept while their issuer is away. Time is moved by hand."""

import asyncio
import gzip
import json
import logging
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa, x25519
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from ficha.errors import Overloaded, Refused
from ficha.server.identity import Identity
from ficha.server.identity.jwks import ANSWER_BYTES, Jwks, usable_keys
from tests.server.identity.conftest import Seconds
from tests.server.identity.issuer import Issuer
from tests.server.identity.refusing import background, refusal, shown
from tests.server.identity.signing import Signer

A, B = Signer("RS256", "a"), Signer("ES256", "b")


async def is_taken(identity: Identity, signer: Signer) -> bool:
    try:
        return (await shown(identity, signer.token())).account == "ana"
    except Refused as refused:
        if refused.code != "UNAUTHENTICATED":
            raise
        return False


async def test_keys_are_fetched_once_and_used_again(published: Identity, issuer: Issuer) -> None:
    issuer.publish(A, B)
    assert issuer.fetches == 0
    for _ in range(20):
        assert await is_taken(published, A)
        assert await is_taken(published, B)
    assert issuer.fetches == 1


async def test_a_new_key_is_taken_within_one_refresh(published: Identity, issuer: Issuer, seconds: Seconds) -> None:
    issuer.publish(A)
    assert await is_taken(published, A)
    issuer.publish(A, B)
    seconds.advance(9.9)
    assert not await is_taken(published, B)
    assert issuer.fetches == 1
    seconds.advance(0.1)
    assert await is_taken(published, B)
    assert await is_taken(published, A)
    assert issuer.fetches == 2


async def test_keys_are_fetched_again_in_the_background_and_a_removed_one_is_refused_from_then_on(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    issuer.publish(A, B)
    assert await is_taken(published, B)
    issuer.publish(A)
    seconds.advance(299.9)
    assert await is_taken(published, B)
    assert issuer.fetches == 1
    seconds.advance(0.1)
    issuer.gate.clear()
    assert await is_taken(published, B), "nobody waits for a refresh that is due"
    await issuer.asked.wait()
    issuer.gate.set()
    await background("ficha jwks")
    assert issuer.fetches == 2
    assert not await is_taken(published, B)
    assert await is_taken(published, A)


async def test_keys_that_nobody_used_for_long_are_not_trusted_before_a_refresh(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    issuer.publish(A, B)
    assert await is_taken(published, B)
    issuer.publish(A)
    seconds.advance(600)
    assert not await is_taken(published, B)
    assert issuer.fetches == 2


async def test_once_the_issuer_is_known_to_be_away_nobody_waits_for_it(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    issuer.publish(A)
    assert await is_taken(published, A)
    issuer.status = 503
    seconds.advance(600)
    assert await is_taken(published, A)
    issuer.gate.clear()
    issuer.asked.clear()
    seconds.advance(10)
    async with asyncio.timeout(4.5):
        assert await is_taken(published, A)
        await issuer.asked.wait()
        assert await is_taken(published, A)
    assert issuer.fetches == 3


async def test_old_keys_work_for_a_day_while_the_issuer_is_away(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    issuer.publish(A)
    assert await is_taken(published, A)
    await issuer.go()
    for _ in range(23):
        seconds.advance(3_600)
        assert await is_taken(published, A)
        assert not await is_taken(published, B)
        await background("ficha jwks")
    seconds.advance(3_600 - 0.1)
    assert await is_taken(published, A)
    await background("ficha jwks")
    seconds.advance(0.1)
    with pytest.raises(Overloaded) as caught:
        await shown(published, A.token())
    assert caught.value.retry_after_s == 10
    await issuer.come()
    seconds.advance(10)
    assert await is_taken(published, A)


async def test_an_issuer_that_was_never_there_is_the_servers_trouble_and_no_failed_attempt(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    issuer.publish(A)
    await issuer.go()
    for _ in range(150):
        with pytest.raises(Overloaded):
            await shown(published, A.token())
    await issuer.come()
    seconds.advance(10)
    assert await is_taken(published, A)
    assert (await refusal(published, A.token(aud="mail"))).code == "UNAUTHENTICATED"


async def test_a_flood_of_unknown_keys_makes_one_fetch_in_ten_seconds(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    issuer.publish(A)
    for second in range(60):
        tokens = [A.token(headers={"kid": f"{second}-{number}"}) for number in range(10)]
        peers = (f"198.51.{second}.{number}" for number in range(10))
        await asyncio.gather(*(refusal(published, token, peer=peer) for token, peer in zip(tokens, peers, strict=True)))
        assert issuer.fetches == second // 10 + 1
        assert await is_taken(published, A)
        seconds.advance(1)


async def test_a_flood_while_the_issuer_is_away_tries_as_seldom(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    issuer.publish(A)
    assert await is_taken(published, A)
    issuer.status = 503
    for second in range(40):
        seconds.advance(1)
        for number in range(5):
            await refusal(published, A.token(headers={"kid": "x"}), peer=f"198.51.{second}.{number}")
        assert issuer.fetches == (second + 1) // 10 + 1


async def test_all_who_wait_share_one_fetch_and_one_who_leaves_takes_nothing_from_the_others(
    published: Identity, issuer: Issuer
) -> None:
    issuer.publish(A)
    issuer.gate.clear()
    waiting = [asyncio.create_task(is_taken(published, A)) for _ in range(50)]
    await issuer.asked.wait()
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    issuer.gate.set()
    assert all(await asyncio.gather(*waiting[1:]))
    assert issuer.fetches == 1


def wrong_status(issuer: Issuer) -> None:
    issuer.status = 500


def partial(issuer: Issuer) -> None:
    issuer.status = 206


def too_long(issuer: Issuer) -> None:
    issuer.body = issuer.body[:-1] + b" " * ANSWER_BYTES + b"}"


def endless(issuer: Issuer) -> None:
    issuer.headers = {"content-length": str(10**9)}


def compressed(issuer: Issuer) -> None:
    issuer.body, issuer.headers = gzip.compress(b" " * 50_000_000), {"content-encoding": "gzip"}


def a_page(issuer: Issuer) -> None:
    issuer.body = b"<html>sign in first</html>"


def a_list(issuer: Issuer) -> None:
    issuer.body = json.dumps([A.jwk]).encode()


def no_list(issuer: Issuer) -> None:
    issuer.body = json.dumps({"keys": {"a": A.jwk}}).encode()


def nothing(issuer: Issuer) -> None:
    issuer.body = b""


def no_http(issuer: Issuer) -> None:
    issuer.headers = {"a b\x00": "c"}


FAILURES = [wrong_status, partial, too_long, endless, compressed, a_page, a_list, no_list, nothing, no_http]


@pytest.mark.parametrize("break_it", FAILURES)
async def test_an_answer_that_is_no_set_of_keys_changes_nothing(
    published: Identity, issuer: Issuer, seconds: Seconds, caplog: pytest.LogCaptureFixture, break_it: Any
) -> None:
    issuer.publish(A)
    assert await is_taken(published, A)
    issuer.publish(B)
    break_it(issuer)
    with caplog.at_level(logging.DEBUG, "ficha.server"):
        for _ in range(3):
            seconds.advance(300)
            assert await is_taken(published, A)
            assert not await is_taken(published, B)
            await background("ficha jwks")
    assert issuer.fetches == 4
    levels = [record.levelname for record in caplog.records if record.name == "ficha.server"]
    assert levels == ["WARNING", "DEBUG", "DEBUG"], "the first failure is told, and the rest to those who ask"


async def test_nobody_is_followed_to_another_address(published: Identity, issuer: Issuer, seconds: Seconds) -> None:
    issuer.publish(A)
    assert await is_taken(published, A)
    async with Issuer() as other:
        other.publish(B)
        for status in (301, 302, 303, 307, 308):
            issuer.status, issuer.headers = status, {"location": other.url}
            seconds.advance(10)
            assert not await is_taken(published, B)
        assert (issuer.fetches, other.fetches) == (6, 0)


@pytest.mark.parametrize("drips", [False, True])
async def test_an_answer_that_takes_too_long_is_a_failure(issuer: Issuer, seconds: Seconds, drips: bool) -> None:
    issuer.publish(A)
    jwks = Jwks(issuer.url, seconds, timeout_s=0.2)
    try:
        assert await jwks.key("a", "RS256") is not None
        issuer.publish(A, B)
        if drips:
            issuer.drips, issuer.headers = True, {"content-length": str(ANSWER_BYTES)}
        else:
            issuer.gate.clear()
        seconds.advance(10)
        assert await jwks.key("b", "ES256") is None
        assert await jwks.key("a", "RS256") is not None
        assert issuer.fetches == 2
    finally:
        await jwks.close()


async def test_closing_ends_a_fetch_that_is_under_way(issuer: Issuer, seconds: Seconds) -> None:
    issuer.gate.clear()
    jwks = Jwks(issuer.url, seconds)
    asking = asyncio.create_task(jwks.key("a", "RS256"))
    await issuer.asked.wait()
    await jwks.close()
    with pytest.raises(Overloaded):
        await asking


async def test_an_issuer_without_keys_has_nobody_let_in(published: Identity, issuer: Issuer, seconds: Seconds) -> None:
    issuer.publish(A)
    assert await is_taken(published, A)
    issuer.publish()
    seconds.advance(600)
    assert not await is_taken(published, A)


async def test_a_key_without_an_id_is_used_only_if_it_is_the_only_one(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    nameless = Signer("RS256", None)
    issuer.publish(nameless)
    assert await is_taken(published, nameless)
    assert (await shown(published, nameless.token(headers={"kid": "any"}))).account == "ana"
    issuer.body = json.dumps({"keys": [nameless.jwk, {name: A.jwk[name] for name in A.jwk if name != "kid"}]}).encode()
    seconds.advance(600)
    assert not await is_taken(published, nameless)
    issuer.publish(nameless, B)
    seconds.advance(10)
    assert not await is_taken(published, nameless)
    await refusal(published, nameless.token(headers={"kid": "any"}))
    assert await is_taken(published, B)


async def test_a_token_may_leave_the_id_out_where_there_is_one_key(
    published: Identity, issuer: Issuer, seconds: Seconds
) -> None:
    nameless = Signer("RS256", "a")
    nameless.kid = None
    issuer.publish(A)
    assert await is_taken(published, nameless)
    issuer.publish(A, B)
    seconds.advance(600)
    assert not await is_taken(published, nameless)


def weak() -> dict[str, Any]:
    return RSAAlgorithm.to_jwk(rsa.generate_private_key(65_537, 1_024).public_key(), as_dict=True) | {"kid": "x"}  # noqa: S505 (that is the point)


UNUSABLE: dict[str, Any] = {
    "a shared secret": {"kty": "oct", "k": "A" * 43, "kid": "x", "alg": "HS256"},
    "for encryption": A.jwk | {"use": "enc"},
    "for another algorithm": A.jwk | {"alg": "RS512"},
    "for HS256": A.jwk | {"alg": "HS256"},
    "for no algorithm": A.jwk | {"alg": "none"},
    "for signing only": A.jwk | {"key_ops": ["sign"]},
    "of another curve": ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP384R1()).public_key(), as_dict=True),
    "of Bitcoin's curve": ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256K1()).public_key(), as_dict=True),
    "Ed448": OKPAlgorithm.to_jwk(ed448.Ed448PrivateKey.generate().public_key(), as_dict=True),
    "X25519": {
        "kty": "OKP",
        "crv": "X25519",
        "x": x25519.X25519PrivateKey.generate().public_key().public_bytes_raw().hex(),
    },
    "too short": weak(),
    "a private one": RSAAlgorithm.to_jwk(A.private, as_dict=True) | {"kid": "x"},
    "with a number as id": A.jwk | {"kid": 1},
    "with null as id": A.jwk | {"kid": None},
    "of an unknown kind": A.jwk | {"kty": "PQC"},
    "of a list of kinds": A.jwk | {"kty": ["RSA"]},
    "without a modulus": {"kty": "RSA", "e": "AQAB", "kid": "x"},
    "with a modulus that is no text": {"kty": "RSA", "e": "AQAB", "n": 7, "kid": "x"},
    "with an exponent of one": A.jwk | {"e": "AQ"},
    "off the curve": B.jwk | {"x": B.jwk["y"]},
    "no object": "a",
    "null": None,
}


@pytest.mark.parametrize("entry", UNUSABLE.values(), ids=UNUSABLE)
def test_a_key_that_cannot_be_used_is_passed_over(entry: Any) -> None:
    assert list(usable_keys(json.dumps({"keys": [entry, B.jwk, entry]}).encode())) == [("b", "ES256")]


def test_keys_of_different_kinds_may_share_an_id_and_of_two_of_one_kind_the_first_counts() -> None:
    keys = usable_keys(
        json.dumps({"keys": [A.jwk, B.jwk | {"kid": "a"}, Signer("RS256", "z").jwk | {"kid": "a"}]}).encode()
    )
    assert set(keys) == {("a", "RS256"), ("a", "ES256")}
    assert keys["a", "RS256"].key == A.private.public_key()


def test_a_private_key_among_the_published_ones_is_told(caplog: pytest.LogCaptureFixture) -> None:
    entry = UNUSABLE["a private one"]
    usable_keys(json.dumps({"keys": [entry]}).encode())
    assert "private key was published" in caplog.text
    assert entry["d"] not in caplog.text


letters = st.text("AQaz09-_=", max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | letters,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(letters, inner, max_size=4),
    max_leaves=10,
)
members = st.sampled_from(["kty", "crv", "n", "e", "x", "y", "d", "alg", "use", "key_ops", "kid"])


@given(changes=st.dictionaries(members, json_values))
def test_whatever_is_published_a_good_key_beside_it_is_used(changes: dict[str, Any]) -> None:
    for entry in (A.jwk | changes, B.jwk | changes, changes):
        assert ("c", "EdDSA") in usable_keys(json.dumps({"keys": [entry, Signer("EdDSA", "c").jwk]}).encode())
