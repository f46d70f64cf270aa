"""What can go wrong between a client and a server, beside a refusal, which is the same `Refused` as in-process.

ServerError       the server cannot be used; the message names it and says what to do
├── Unreachable   no answer, or one that says that the server behind it is away
└── BadAnswer     an answer that no Ficha server gives: probably the URL is not that of one
"""

from __future__ import annotations


class ServerError(Exception):
    """The server cannot be used."""


class Unreachable(ServerError):
    """The server did not answer.

    carried_out: `perhaps` if the request may have reached the server, `no` if it cannot have.
    """

    def __init__(self, message: str, *, reached: bool, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.reached = reached
        self.retry_after_s = retry_after_s

    @property
    def carried_out(self) -> str:
        return "perhaps" if self.reached else "no"


class BadAnswer(ServerError):
    """The answer is not that of a Ficha server, or not of one of this release."""
