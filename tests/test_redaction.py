"""Secret fields of JSON are masked, and everything else stays as it was written."""

import json

import pytest

from ficha.redaction import masked, masked_json

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
