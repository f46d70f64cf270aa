"""Signatures of texts: for one purpose, one secret and exactly these parts."""

import pytest

from ficha.signing import Signer

SECRET = "k" * 32


def test_a_signature_holds_for_its_parts_and_purpose_alone() -> None:
    signer = Signer(SECRET)
    signature = signer.sign("call-back", "job", "0")
    assert signer.is_signed(signature, "call-back", "job", "0")
    assert signature == Signer(SECRET).sign("call-back", "job", "0")
    for other in (("call-back", "job", "1"), ("call-back", "job0", ""), ("file", "job", "0"), ("call-back", "job")):
        assert not signer.is_signed(signature, *other)
    assert not Signer(SECRET[::-1] + "x").is_signed(signature, "call-back", "job", "0")
    for wrong in ("", signature[:-1], signature + "A", "é" * 32):
        assert not signer.is_signed(wrong, "call-back", "job", "0")


def test_a_signature_fits_into_a_url() -> None:
    for number in range(200):
        assert Signer(SECRET).sign("file", str(number)).replace("-", "").replace("_", "").isalnum()


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 characters"):
        Signer("k" * 31)
