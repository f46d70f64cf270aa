"""A link is good for one file and one time, and cannot be made or changed without the secret."""

from urllib.parse import parse_qs, urlsplit

import pytest

from ficha.files.links import LONGEST_S, FileLinks
from ficha.signing import Signer

NOW = 1_790_000_000.5
LINKS = FileLinks(Signer("s" * 32), "https://example.com/base/")


def parts(url: str) -> tuple[str, str, str]:
    split = urlsplit(url)
    query = parse_qs(split.query)
    assert set(query) == {"expires", "signature"}
    return split.path.rpartition("/")[2], query["expires"][0], query["signature"][0]


def test_a_link_names_its_file_under_the_public_address() -> None:
    url = LINKS.url("file-1", NOW, 60)
    assert url.startswith("https://example.com/base/api/files/file-1?expires=")


def test_a_link_is_valid_until_it_expires_and_not_a_moment_longer() -> None:
    file, expires, signature = parts(LINKS.url("file-1", NOW, 60))
    assert LINKS.is_valid(file, expires, signature, NOW)
    assert LINKS.is_valid(file, expires, signature, int(NOW) + 59.9)
    assert not LINKS.is_valid(file, expires, signature, int(NOW) + 60)


def test_no_part_of_a_link_can_be_changed() -> None:
    file, expires, signature = parts(LINKS.url("file-1", NOW, 60))
    assert not LINKS.is_valid("file-2", expires, signature, NOW)
    assert not LINKS.is_valid(file, str(int(expires) + 1), signature, NOW)
    assert not LINKS.is_valid(file, expires, signature[:-1] + ("A" if signature[-1] != "A" else "B"), NOW)
    assert not FileLinks(Signer("t" * 32), "").is_valid(file, expires, signature, NOW)
    other = Signer("s" * 32).sign("another purpose", file, expires)
    assert not LINKS.is_valid(file, expires, other, NOW)


@pytest.mark.parametrize("expires", ["", "-1", "1e9", "abc", "١٧٩٠٠٠٠٠٦٠", " 1790000060", "9" * 5_000])
def test_a_time_that_is_no_number_is_not_valid(expires: str) -> None:
    signature = Signer("s" * 32).sign("file-link", "file-1", expires)
    assert not LINKS.is_valid("file-1", expires, signature, NOW)


@pytest.mark.parametrize("signature", ["", "é", "\ud800", "x" * 10_000])
def test_a_signature_that_is_none_is_not_valid(signature: str) -> None:
    _, expires, _ = parts(LINKS.url("file-1", NOW, 60))
    assert not LINKS.is_valid("file-1", expires, signature, NOW)
    assert not LINKS.is_valid(signature, expires, signature, NOW)


def test_a_link_is_valid_for_a_week_at_most() -> None:
    assert LINKS.url("file-1", NOW, LONGEST_S)
    for expires_s in (0, -1, LONGEST_S + 1):
        with pytest.raises(ValueError, match="1 to 604800 seconds"):
            LINKS.url("file-1", NOW, expires_s)
