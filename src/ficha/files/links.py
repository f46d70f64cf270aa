"""Links to files: URLs that are signed and expire, and that need no other credential."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from ..signing import Signer

PURPOSE: Final = "file-link"
LONGEST_S: Final = 7 * 24 * 3600
"""The longest that a link can be valid: a week."""


class FileLinks:
    """Makes and checks the links to files. public_url: how the server is reached, as in `https://example.com`."""

    def __init__(self, signer: Signer, public_url: str) -> None:
        self._signer = signer
        self._base = public_url.rstrip("/")

    def url(self, file_id: str, now_s: float, expires_s: int) -> str:
        """A link that is valid for `expires_s` seconds from now. Raises ValueError unless that is 1 s to a week."""
        if not 1 <= expires_s <= LONGEST_S:
            raise ValueError(f"a link is valid for 1 to {LONGEST_S} seconds, not {expires_s}")
        expires = str(int(now_s) + expires_s)
        asked = urlencode({"expires": expires, "signature": self._signer.sign(PURPOSE, file_id, expires)})
        return f"{self._base}/api/files/{quote(file_id, safe='')}?{asked}"

    def is_valid(self, file_id: str, expires: str, signature: str, now_s: float) -> bool:
        """Whether a link with these parts was made here for this file, and has not expired."""
        if not (expires.isascii() and expires.isdigit() and len(expires) <= 12):
            return False
        # The signature is checked first: only a holder of a link may learn whether it has expired.
        return self._signer.is_signed(signature, PURPOSE, file_id, expires) and now_s < int(expires)
