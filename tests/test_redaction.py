"""Secret fields of JSON are masked, and everything else stays as it was written."""

import json

import pytest

from ficha.redaction import masked, masked_json, redacted

SHOWN = ["prompt", "max_tokens", "token_count", "secret_name", "keys", "api", "tokenizer", "keyword", "author"]
HIDDEN = [
    *("password", "Password", "db_password", "passwd", "pwd", "passphrase", "secret", "client_secret", "clientSecret"),
    *("token", "access_token", "accessToken", "ACCESS-TOKEN", "api_key", "apiKey", "api-key", "openai_api_key"),
    *("authorization", "Authorization", "bearer", "credential", "credentials", "private_key", "aws.access.key"),
    "secret_key",
]


@pytest.mark.parametrize("name", SHOWN)
def test_a_field_with_an_ordinary_name_is_shown(name: str) -> None:
    text = json.dumps({name: "x", "secret": 1})
    assert json.loads(masked_json(text)) == {name: "x", "secret": "[hidden]"}
    assert masked({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_field_with_a_secret_name_is_masked_wherever_it_is(name: str) -> None:
    value = {"deep": [{"er": {name: {"any": ["thing", 1]}, "rest": 1}}], name: None}
    hidden = {"deep": [{"er": {name: "[hidden]", "rest": 1}}], name: "[hidden]"}
    assert json.loads(masked_json(json.dumps(value))) == hidden
    assert masked(value) == hidden


def test_what_is_not_masked_stays_to_the_last_digit() -> None:
    text = '{"a":1e400,"b":1.50000000000000000001,"c":123456789012345678901234567890,"token":"x","e":[1,"\\u00e9"]}'
    assert masked_json(text) == text.replace('"x"', '"[hidden]"')
    untouched = '{ "a" : 1.0 }'
    assert masked_json(untouched) is untouched
    for scalar in ('"a token"', "null", "12", "[]", "{}"):
        assert masked_json(scalar) == scalar


def test_texts_of_events_lose_what_looks_like_a_secret() -> None:
    told = masked({"body": 'said: {"api_key": "sk-abcdefabcdefabcdef"}', "n": 1})
    assert "abcdef" not in told["body"]
    assert told["n"] == 1


@pytest.mark.parametrize("name", ["token", "access_token", "key", "api_key", "apiKey", "sig", "X-Amz-Signature", "pwd"])
def test_a_secret_parameter_of_an_address_is_hidden_however_short(name: str) -> None:
    told = redacted(f"404 for https://api.example.com/v1?page=2&{name}=abc&size=9")
    assert told == f"404 for https://api.example.com/v1?page=2&{name}=[hidden]&size=9"
    assert redacted(f"GET '/x?{name}=a' failed") == f"GET '/x?{name}=[hidden]' failed"


@pytest.mark.parametrize(
    "text", ["/jobs?monkey=3&page=2", "what? key=a", "https://a.example/?q=token", "5 tokens left"]
)
def test_an_ordinary_address_is_shown(text: str) -> None:
    assert redacted(text) == text


def test_a_secret_after_a_longer_name_is_hidden() -> None:
    assert redacted('{"access_token": "abcdef"}') == '{"access_token": "[hidden]"}'
    assert masked(("token=abcdefgh", 1)) == ["token=[hidden]", 1]
