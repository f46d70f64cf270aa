"""Identity as a whole: how a credential is sent, and that whatever is sent makes a caller or a refusal."""

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ficha import Ficha, Plan
from ficha.errors import Refused
from ficha.server.identity import Caller, Identity
from ficha.server.settings import Settings
from tests.server.identity.refusing import PEER, refusal
from tests.server.identity.signing import AUDIENCE, ISSUER, JWT_SECRET, SERVER_SECRET, shared_token


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER {}", "Bearer   {}", "Bearer {}  "])
async def test_the_scheme_may_be_spelt_in_any_case(shared: Identity, form: str) -> None:
    assert (await shared.caller(form.format(shared_token()), peer=PEER)).account == "ana"


@pytest.mark.parametrize(
    "form",
    [
        "", " ", "{}", "Bearer", "Bearer ", "Bearer{}", "Bearer\t{}", " Bearer {}", "Basic {}", "Token {}",
        "Bearer Bearer {}", "Bearer {} {}", "Bearer {},{}", 'Bearer "{}"', "Bearer {}\n", "Bearer: {}",
        "Be\u0430rer {}", "Bearer \u017f{}",
    ],
)  # fmt: skip
async def test_any_other_header_is_refused(shared: Identity, form: str) -> None:
    with pytest.raises(Refused) as caught:
        await shared.caller(form.format(shared_token(), shared_token()), peer=PEER)
    assert caught.value.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("letter", ["\u017f", "\u212a", "é", "\x7f", "\x00"])
async def test_a_credential_is_printable_ascii(shared: Identity, letter: str) -> None:
    with pytest.raises(Refused, match="the header Authorization must be"):
        await shared.caller(f"Bearer {letter}", peer=PEER)


@pytest.mark.parametrize(
    "text", ["password", "sk_live_0123456789", "a.b", "a.b.c.d", "0197f2a0-0000-7000-8000-000000000001"]
)
async def test_what_is_neither_key_nor_token_is_refused(shared: Identity, text: str) -> None:
    assert "neither an API key" in (await refusal(shared, text)).message


async def test_nothing_of_a_credential_is_logged(shared: Identity, caplog: pytest.LogCaptureFixture) -> None:
    sent = [shared_token(exp=0), "ficha_user_" + "c4Nary" * 5 + "abc", "c4Nary", shared_token({"alg": "c4Nary"})]
    with caplog.at_level(logging.DEBUG):
        for text in sent:
            await refusal(shared, text)
    assert not any(part in caplog.text for text in sent for part in text.split("."))


Ask = Callable[[str, str | None], Refused | Caller]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Asks a new identity each time, so that nobody has failed too often."""
    told = Settings(secret=SERVER_SECRET, jwt_secret=JWT_SECRET, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
    app = Ficha("memory:", plans=[Plan("free")])

    async def answer(authorization: str, token: str | None) -> Refused | Caller:
        identity = Identity(app, told)
        try:
            return await identity.caller(authorization, token=token, peer=PEER)
        except Refused as refused:
            return refused
        finally:
            await identity.close()

    with asyncio.Runner() as runner:
        runner.run(app.open())
        yield lambda authorization, token: runner.run(answer(authorization, token))
        runner.run(app.close())


parts = st.binary(max_size=60).map(lambda raw: raw.decode("latin-1"))
letters = st.text('ABCabc012-_=.{}"', max_size=60)
texts = (
    parts
    | letters
    | st.builds("{}.{}.{}".format, letters, letters, letters)
    | st.builds(
        "ficha_{}_{}".format, st.sampled_from(["user", "service", "admin", "viewer", "job", ""]), letters | parts
    )
    | st.builds(
        lambda text, at, other: text[:at] + other + text[at + 1 :], st.just(shared_token()), st.integers(0, 300), parts
    )
)


@settings(max_examples=500)
@given(authorization=parts | st.builds("Bearer {}".format, texts), token=st.none() | texts)
def test_whatever_is_sent_there_is_a_caller_or_a_refusal(ask: Ask, authorization: str, token: str | None) -> None:
    match ask(authorization, token):
        case Refused() as refused:
            assert (refused.code, refused.retry_after_s, refused.details) == ("UNAUTHENTICATED", None, {})
        case Caller() as caller:
            assert (replace(caller, expires_at=None), token) == (Caller("user", "ana", name="jwt ana"), None)
