"""Who a request comes from, once that is proved, and the refusal of everybody else."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...core.outcomes import Refusal
from ...errors import Refused

Scope = Literal["user", "service", "admin", "job"]


class Caller(Struct, frozen=True, gc=False):
    """A proved identity.

    scope: `user` acts for one account, `service` for any, `admin` for any and runs the place, `job` sees and cancels
        one job.
    account: whose a `user` or `job` caller is; None for the others.
    job: the one job of a `job` caller.
    name: for the audit log and the access log. It never holds a secret.
    key_id: the API key's id; None for tokens.
    """

    scope: Scope
    account: str | None = None
    job: str | None = None
    name: str = ""
    key_id: str | None = None


def unauthenticated(problem: str) -> Refused:
    """The refusal of a credential; nothing of its text may be in the words."""
    return Refused.of(Refusal("UNAUTHENTICATED", f"{problem}; nothing was changed."))
