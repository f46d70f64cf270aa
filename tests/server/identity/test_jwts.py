"""JWTs: what is right is taken, and every known trick is refused with the same code."""

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ficha.errors import Refused
from ficha.server.identity import Caller, Identity
from ficha.server.identity.tokens import parsed
from tests.server.identity.conftest import Make
from tests.server.identity.issuer import Issuer
from tests.server.identity.refusing import PEER, refusal, shown
from tests.server.identity.signing import (
    AUDIENCE,
    ISSUER,
    JWT_SECRET,
    Signer,
    claims,
    put_together,
    shared_token,
    unsigned,
    with_secret,
)

Made = Callable[[], str]


def now() -> int:
    return int(time.time())


def text_of(**changes: Any) -> str:
    return json.dumps(claims(**changes))


ANA = Caller("user", "ana", name="jwt ana")

TAKEN: dict[str, Made] = {
    "as it should be": shared_token,
    "an audience among others": lambda: shared_token(aud=["mail", AUDIENCE]),
    "expired within the leeway": lambda: shared_token(exp=now() - 20),
    "not yet valid within the leeway": lambda: shared_token(nbf=now() + 20, iat=now() + 20),
    "a date with a fraction": lambda: shared_token(exp=now() + 600.5),
    "further claims": lambda: shared_token(role="admin", scope="everything", roles=["admin"]),
    "a kid that nobody asks for": lambda: shared_token({"alg": "HS256", "kid": "../../dev/null"}),
    "an access token": lambda: shared_token({"alg": "HS256", "typ": "application/at+JWT"}),
}


@pytest.mark.parametrize("made", TAKEN.values(), ids=TAKEN)
async def test_a_good_token_is_its_subject_and_a_user_whatever_else_it_claims(shared: Identity, made: Made) -> None:
    assert await shown(shared, made()) == ANA


async def test_a_caller_has_the_time_at_which_the_token_expires(shared: Identity) -> None:
    for exp in (now() + 600, now() + 600.5):
        assert (await shared.caller(f"Bearer {shared_token(exp=exp)}", peer=PEER)).expires_at == exp


ALGORITHMS: dict[str, Made] = {
    **{
        f"{algorithm}, {how}": lambda algorithm=algorithm, sign=sign: put_together({"alg": algorithm}, claims(), sign)
        for algorithm in ("none", "None", "nOnE", "NONE", "", "hs256", "HS384", "HS512", "RS256", "ES256", "EdDSA")
        for how, sign in (("unsigned", unsigned), ("signed", with_secret))
    },
    "no algorithm": lambda: shared_token({"typ": "JWT"}),
    "null": lambda: shared_token({"alg": None}),
    "a list": lambda: shared_token({"alg": ["HS256"]}),
    "a number": lambda: shared_token({"alg": 256}),
    "an object": lambda: shared_token({"alg": {"HS256": True}}),
    "really HS512": lambda: jwt.encode(claims(), JWT_SECRET * 2, "HS512"),
    "another secret": lambda: jwt.encode(claims(), JWT_SECRET[::-1], "HS256"),
    "an empty secret": lambda: put_together({"alg": "HS256"}, claims(), lambda _: bytes(32)),
    "half a signature": lambda: put_together({"alg": "HS256"}, claims(), lambda message: with_secret(message)[:16]),
    "the signature of other claims": lambda: shared_token(sub="eva").rsplit(".", 1)[0] + shared_token()[-44:],
}

DATES: dict[str, Made] = {
    "expired": lambda: shared_token(exp=now() - 40),
    "expired long ago": lambda: shared_token(exp=0),
    "no exp": lambda: shared_token(exp=...),
    "exp null": lambda: shared_token(exp=None),
    "exp as text": lambda: shared_token(exp=str(now() + 600)),
    "exp as text that is no number": lambda: shared_token(exp="never"),
    "exp as truth": lambda: shared_token(exp=True),
    "exp as list": lambda: shared_token(exp=[now() + 600]),
    "exp as object": lambda: shared_token(exp={"at": now() + 600}),
    "exp before 1970": lambda: shared_token(exp=-1),
    "exp beyond all calendars": lambda: shared_token(exp=10**30),
    "exp of a thousand digits": lambda: shared_token(body=text_of(exp=...)[:-1] + f', "exp": {"9" * 1_000}}}'),
    "exp of five thousand digits": lambda: shared_token(body=text_of(exp=...)[:-1] + f', "exp": {"9" * 5_000}}}'),
    "exp infinite": lambda: shared_token(body=text_of(exp=...)[:-1] + ', "exp": 1e400}'),
    "exp Infinity": lambda: shared_token(body=text_of(exp=...)[:-1] + ', "exp": Infinity}'),
    "exp NaN": lambda: shared_token(body=text_of(exp=...)[:-1] + ', "exp": NaN}'),
    "nbf in the future": lambda: shared_token(nbf=now() + 40),
    "nbf as text": lambda: shared_token(nbf="0"),
    "nbf null": lambda: shared_token(nbf=None),
    "nbf as truth": lambda: shared_token(nbf=False),
    "iat in the future": lambda: shared_token(iat=now() + 40),
    "iat as text": lambda: shared_token(iat="yesterday"),
}

CLAIMS: dict[str, Made] = {
    **{f"no {name}": lambda name=name: shared_token(**{name: ...}) for name in ("aud", "iss", "sub")},
    **{f"{name} null": lambda name=name: shared_token(**{name: None}) for name in ("aud", "iss", "sub")},
    "another audience": lambda: shared_token(aud="mail"),
    "other audiences": lambda: shared_token(aud=["mail", "files"]),
    "no audiences": lambda: shared_token(aud=[]),
    "an audience that is longer": lambda: shared_token(aud=AUDIENCE + "s"),
    "an audience that is shorter": lambda: shared_token(aud=AUDIENCE[:-1]),
    "an audience in capitals": lambda: shared_token(aud=AUDIENCE.upper()),
    "an audience among numbers": lambda: shared_token(aud=[AUDIENCE, 1]),
    "an audience as object": lambda: shared_token(aud={AUDIENCE: True}),
    "another issuer": lambda: shared_token(iss="https://id.example.evil"),
    "an issuer that begins so": lambda: shared_token(iss=ISSUER + "/"),
    "an issuer that ends so": lambda: shared_token(iss="x" + ISSUER),
    "the beginning of the issuer": lambda: shared_token(iss=ISSUER[:-1]),
    "an empty issuer": lambda: shared_token(iss=""),
    "an issuer as list": lambda: shared_token(body=json.dumps(claims() | {"iss": [ISSUER]})),
    "another project": lambda: shared_token(iss="https://other.example", aud="other"),
    "sub as number": lambda: shared_token(sub=7),
    "sub as list": lambda: shared_token(sub=["ana"]),
    "sub empty": lambda: shared_token(sub=""),
    "sub too long": lambda: shared_token(sub="a" * 256),
    "sub with NUL": lambda: shared_token(sub="ana\x00"),
    "sub of Ficha's own": lambda: shared_token(sub="ficha:schedules"),
    "sub with a line break": lambda: shared_token(sub="ana\nadmin"),
    "sub with a lone surrogate": lambda: shared_token(body=text_of(sub="@").replace("@", "\\ud800")),
    "jti as number": lambda: shared_token(jti=1),
}

HEADERS: dict[str, Made] = {
    "crit": lambda: shared_token({"alg": "HS256", "crit": ["exp"]}),
    "crit that the library knows": lambda: shared_token({"alg": "HS256", "crit": ["b64"], "b64": True}),
    "crit with a detached payload": lambda: shared_token({"alg": "HS256", "crit": ["b64"], "b64": False}),
    "crit empty": lambda: shared_token({"alg": "HS256", "crit": []}),
    "crit null": lambda: shared_token({"alg": "HS256", "crit": None}),
    "b64 without crit": lambda: shared_token({"alg": "HS256", "b64": False}),
    "alg twice": lambda: shared_token('{"alg": "none", "alg": "HS256"}'),
    "alg twice, once escaped": lambda: shared_token('{"\\u0061lg": "none", "alg": "HS256"}'),
    "sub twice": lambda: shared_token(body=text_of()[:-1] + ', "sub": "eva"}'),
    "a key twice further in": lambda: shared_token(body=text_of()[:-1] + ', "x": [{"a": 1, "a": 2}]}'),
    "a log-out token": lambda: shared_token({"alg": "HS256", "typ": "logout+jwt"}),
    "a proof of possession": lambda: shared_token({"alg": "HS256", "typ": "dpop+jwt"}),
    "typ as number": lambda: shared_token({"alg": "HS256", "typ": 1}),
    "typ as list": lambda: shared_token({"alg": "HS256", "typ": ["JWT"]}),
    "kid as number": lambda: shared_token({"alg": "HS256", "kid": 1}),
}

SHAPES: dict[str, Made] = {
    "too long": lambda: shared_token(x="y" * 100_000),
    "a little too long": lambda: shared_token(x="y" * 6_200),
    "claims that are a list": lambda: shared_token(body="[]"),
    "claims that are a text": lambda: shared_token(body='"ana"'),
    "claims that are null": lambda: shared_token(body="null"),
    "claims that are nothing": lambda: shared_token(body=" "),
    "a header that is a list": lambda: shared_token("[]"),
    "a header that is a number": lambda: shared_token("1"),
    "claims nested too deep": lambda: shared_token(body='{"a":' * 1_000 + "1" + "}" * 1_000),
    "a header nested too deep": lambda: shared_token("[" * 5_000),
    "claims that are not UTF-8": lambda: shared_token(body=text_of().encode().replace(b"ana", b"an\xff")),
    "claims in UTF-16": lambda: shared_token(body=text_of().encode("utf-16")),
    "claims with a byte order mark": lambda: shared_token(body=b"\xef\xbb\xbf" + text_of().encode()),
    "claims with more behind them": lambda: shared_token(body=text_of() + "{}"),
    "claims with what JSON does not have": lambda: shared_token(body=text_of()[:-1] + ', "x": NaN}'),
    "no parts": lambda: "..",
    "three letters": lambda: "a.b.c",
    "three words": lambda: "not.a.token",
    "no header": lambda: "." + shared_token().split(".", 1)[1],
    "no signature": lambda: shared_token().rsplit(".", 1)[0] + ".",
    "two parts": lambda: shared_token().rsplit(".", 1)[0],
    "five parts, as if encrypted": lambda: shared_token() + ".a.b",
    "padded": lambda: shared_token() + "==",
    "the other alphabet": lambda: ".".join(
        base64.b64encode(part).decode() for part in (b'{"alg":"HS256","x":"\xc3\xbf\xc3\xbe"}', b"{}", b"\xff\xfe\xff")
    ),
    "another last letter for the same bytes": lambda: with_other_ending(shared_token()),
}


def with_other_ending(token: str) -> str:
    """The last letter of a signature has bits that stand for nothing; here one of them is set otherwise."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


REFUSED = {
    f"{kind}: {name}": made
    for kind, group in (
        ("algorithm", ALGORITHMS), ("date", DATES), ("claim", CLAIMS), ("header", HEADERS), ("shape", SHAPES),
    )
    for name, made in group.items()
}  # fmt: skip


@pytest.mark.parametrize("made", REFUSED.values(), ids=REFUSED)
async def test_a_wrong_token_is_refused(shared: Identity, made: Made) -> None:
    await refusal(shared, made())


async def test_wrong_tokens_are_refused_where_keys_are_published_and_by_a_server_without_jwts(
    published: Identity, issuer: Issuer, identity_with: Make
) -> None:
    issuer.publish(Signer("RS256", "a"))
    without = identity_with()
    for number, (name, made) in enumerate([*TAKEN.items(), *REFUSED.items()]):
        for identity in (published, without):
            words = (await refusal(identity, made(), peer=f"198.51.100.{number}")).message
            assert "nothing was changed" in words, name


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (DATES["expired"], "has expired"),
        (DATES["nbf in the future"], "not valid yet"),
        (DATES["exp as text"], "exp is not a date"),
        (DATES["no exp"], "lacks a required claim"),
        (CLAIMS["another audience"], "another audience"),
        (CLAIMS["another issuer"], "another issuer"),
        (CLAIMS["sub with NUL"], "NUL"),
        (CLAIMS["sub of Ficha's own"], "Ficha's own"),
        (ALGORITHMS["another secret"], "not signed with a key that this server trusts"),
        (HEADERS["crit"], "critical extension"),
        (HEADERS["sub twice"], "without repeated keys"),
        (SHAPES["too long"], "longer than 8192"),
    ],
)
async def test_the_words_say_what_is_wrong(shared: Identity, made: Made, words: str) -> None:
    assert words in (await refusal(shared, made())).message


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_token_signed_with_a_published_key_is_taken(
    published: Identity, issuer: Issuer, algorithm: str
) -> None:
    signer = Signer(algorithm, "a")
    issuer.publish(Signer("RS256", "other"), signer)
    assert await shown(published, signer.token()) == ANA


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_public_key_is_nobodys_secret(published: Identity, issuer: Issuer, algorithm: str) -> None:
    """The oldest trick: the public key, as text, taken for the secret of HS256."""
    signer = Signer(algorithm, "a")
    issuer.publish(signer)
    public = signer.private.public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).strip(),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(signer.jwk).encode(),
        issuer.body,
        b"",
    ]
    for secret in secrets:
        for claimed in ("HS256", "HS512", algorithm):
            sign = lambda message, secret=secret: jwt.get_algorithm_by_name("HS256").sign(message, secret)  # noqa: E731
            await refusal(published, put_together({"alg": claimed, "kid": "a"}, claims(), sign))
    assert await shown(published, signer.token()) == ANA


@pytest.mark.parametrize(
    "kid",
    [
        "b",
        "A",
        "a ",
        "",
        "../../../../../../dev/null",
        "' OR '1'='1",
        "a'; DROP TABLE api_keys; --",
        "a\x00",
        "http://127.0.0.1/",
    ],
)
async def test_a_key_id_is_only_looked_up(published: Identity, issuer: Issuer, kid: str) -> None:
    issuer.publish(Signer("RS256", "a"), Signer("ES256", "c"))
    await refusal(published, Signer("RS256", "a").token(headers={"kid": kid}))


@pytest.mark.parametrize("kid", [1, None, ["a"], {"a": "a"}, True])
async def test_a_key_id_is_text(published: Identity, issuer: Issuer, kid: Any) -> None:
    issuer.publish(Signer("RS256", "a"), Signer("ES256", "c"))
    sign = lambda message: jwt.get_algorithm_by_name("RS256").sign(message, Signer("RS256", "a").private)  # noqa: E731
    await refusal(published, put_together({"alg": "RS256", "kid": kid}, claims(), sign))


async def test_another_key_of_the_same_name_or_kind_is_not_the_published_one(
    published: Identity, issuer: Issuer
) -> None:
    issuer.publish(Signer("RS256", "a"), Signer("ES256", "c"), Signer("EdDSA", "e"))
    for signer in (Signer("RS256", "mine"), Signer("ES256", "mine"), Signer("EdDSA", "mine")):
        for kid in ("a", "c", "e"):
            await refusal(published, signer.token(headers={"kid": kid}))


async def test_a_key_is_used_with_its_own_algorithm_only(published: Identity, issuer: Issuer) -> None:
    issuer.publish(Signer("RS256", "a"), Signer("ES256", "c"))
    for algorithm in ("RS384", "RS512", "PS256", "PS512"):
        await refusal(published, Signer("RS256", "a").token(algorithm))
    await refusal(published, Signer("RS256", "a").token(headers={"kid": "c"}))
    await refusal(published, Signer("ES256", "c").token(headers={"kid": "a"}))
    # Zeros are a signature of everything where they are not looked for.
    await refusal(published, put_together({"alg": "ES256", "kid": "c"}, claims(), lambda _: bytes(64)))


async def test_a_token_of_another_algorithm_does_not_even_make_a_fetch(published: Identity, issuer: Issuer) -> None:
    for algorithm in ("none", "HS256", "RS512", "PS256", "ES384", "", None, ["RS256"]):
        await refusal(published, put_together({"alg": algorithm, "kid": "a"}, claims(), with_secret))
    assert issuer.fetches == 0


async def test_keys_and_addresses_in_a_token_are_not_looked_at(published: Identity, issuer: Issuer) -> None:
    mine = Signer("RS256", "mine")
    issuer.publish(Signer("RS256", "a"))
    async with Issuer() as evil:
        evil.publish(mine)
        for header in ({"jku": evil.url}, {"x5u": evil.url}, {"jwk": mine.jwk}, {"x5c": ["AAAA"]}):
            for kid in ("a", "mine"):
                await refusal(published, mine.token(headers=header | {"kid": kid}))
            # The issuer's own tokens may hold such a header, which means nothing here.
            assert await shown(published, Signer("RS256", "a").token(headers=header)) == ANA
        assert evil.fetches == 0


async def test_a_good_token_with_any_one_character_changed_is_refused(shared: Identity) -> None:
    token = shared_token()
    for at, letter in enumerate(token):
        for other in {"A", "B", ".", "="} - {letter}:
            await refusal(shared, token[:at] + other + token[at + 1 :], peer=f"198.51.{at % 256}.{ord(other)}")


@pytest.mark.parametrize("end", ["\n", "\r\n", " ", "\t", "\x00", "é"])
def test_nothing_may_follow_a_token(end: str) -> None:
    with pytest.raises(Refused):
        parsed(shared_token() + end)
