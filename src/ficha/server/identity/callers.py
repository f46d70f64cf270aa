"""The authenticated caller of a request, and the refusal of all others."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...core.outcomes import Refusal
from ...errors import Refused

Scope = Literal["user", "service", "admin", "viewer", "job"]


class Caller(Struct, frozen=True, gc=False):
    """An authenticated caller.

    scope: `user` acts for one account, `service` for any, `admin` for any and administers, `viewer` sees what an
        `admin` sees and changes nothing, `job` sees and cancels one job.
    account: the account of a `user` or `job` caller; None for the others.
    job: the one job of a `job` caller.
    name: for the audit log and the request log. It never holds a secret.
    key_id: the API key's id; for a job token, the id of the key that it was made with, if any; None for JWTs.
    expires_at: when the credential expires, in seconds since 1970; None if it does not.
    """

    scope: Scope
    account: str | None = None
    job: str | None = None
    name: str = ""
    key_id: str | None = None
    expires_at: float | None = None


def unauthenticated(problem: str) -> Refused:
    """The refusal of a credential; the message must not hold any of its text."""
    return Refused.of(Refusal("UNAUTHENTICATED", f"{problem}; nothing was changed."))
