"""The errors of a call. An HTTP status is not an error here: the caller judges it."""

from __future__ import annotations


class OutboundError(Exception):
    """A call got no answer that can be used. The message names the host at most: paths and queries may hold secrets.

    was_sent: False only if the server certainly received nothing of the request.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.message = message
        self.was_sent = was_sent


class ForbiddenAddress(OutboundError):
    """A URL that must not be called: it is malformed, not HTTPS, or leads to an address that is not public."""

    def __init__(self, message: str) -> None:
        super().__init__(message, was_sent=False)
