"""The text of an API key: what a scanner, a double click and a typing error meet."""

import hashlib
import re
from zlib import crc32

import pytest

from ficha import api_key_text
from ficha.redaction import redacted

SCOPES = ("user", "service", "admin", "viewer")
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_says_what_it_is_and_holds_160_random_bits_and_a_checksum(scope: str) -> None:
    secret = api_key_text.new_secret(scope)
    match = re.fullmatch(rf"(ficha_{scope}_([0-9A-Za-z]{{27}}))([0-9A-Za-z]{{6}})", secret)
    assert match is not None
    assert value(match[2]) < 2**160 < 62**27
    assert value(match[3]) == crc32(match[1].encode())
    assert api_key_text.scope_of(secret) == scope
    assert api_key_text.is_well_formed(secret)
    assert api_key_text.hint_of(secret) == f"ficha_{scope}_{match[2][:6]}"
    assert api_key_text.digest_of(secret) == hashlib.sha256(secret.encode()).hexdigest()


def value(text: str) -> int:
    number = 0
    for digit in text:
        number = number * 62 + DIGITS.index(digit)
    return number


def test_keys_are_drawn_anew_and_all_of_the_160_bits_are_used() -> None:
    drawn = {value(api_key_text.new_secret("user")[11:38]) for _ in range(500)}
    assert len(drawn) == 500
    ones = 0
    zeros = 0
    for number in drawn:
        ones |= number
        zeros |= ~number
    assert ones == 2**160 - 1
    assert zeros & (2**160 - 1) == 2**160 - 1


def test_every_typing_error_is_noticed_without_a_question_to_anybody() -> None:
    secret = api_key_text.new_secret("service")
    for at, character in enumerate(secret):
        for other in "aZ0_-é":
            if other != character:
                assert api_key_text.scope_of(secret[:at] + other + secret[at + 1 :]) is None
        assert api_key_text.scope_of(secret[:at] + secret[at + 1 :]) is None
    for at in range(len(secret) - 1):
        swapped = secret[:at] + secret[at + 1] + secret[at] + secret[at + 2 :]
        assert swapped == secret or api_key_text.scope_of(swapped) is None


def test_what_is_no_key_has_no_scope() -> None:
    key = api_key_text.new_secret("user")
    odd_texts = ("", "ficha_user_", "ficha_root_" + "0" * 33, "x" * 10_000, "ficha_user_" + "é" * 33)
    for odd in (None, 7, b"ficha_user_", *odd_texts, f" {key}", f"{key}\n", key.upper(), key.encode()):
        assert api_key_text.scope_of(odd) is None
        assert not api_key_text.is_well_formed(odd)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_in_an_error_is_taken_out_of_it(scope: str) -> None:
    secret = api_key_text.new_secret(scope)
    assert redacted(f"401 for {secret}, try another") == "401 for [hidden], try another"
