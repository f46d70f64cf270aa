"""API keys without their secrets, and the log of what was done in somebody's name."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from ...core.api_keys import ApiKeyState, state_of
from ...core.records import ApiKeyScope
from ...store.base import ApiKeyRow, NumberedLine
from .dates import moment, moment_if_any


class ApiKeyView(Struct, frozen=True, kw_only=True):
    """An API key without its secret. Its state is that at the time of the request, by the database's clock."""

    id: str
    name: str
    hint: str
    scope: ApiKeyScope
    account: str | None
    state: ApiKeyState
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


def api_key_view(row: ApiKeyRow, now: int) -> ApiKeyView:
    key = row.key
    return ApiKeyView(
        id=key.id,
        name=key.name,
        hint=key.hint,
        scope=key.scope,
        account=key.account_id,
        state=state_of(key, now),
        created_at=moment(key.created_at),
        expires_at=moment_if_any(key.expires_at),
        revoked_at=moment_if_any(key.revoked_at),
        last_used_at=moment_if_any(row.last_used_at),
    )


class NewApiKey(Struct, frozen=True, kw_only=True):
    """A key that was just made: the only time that its secret is shown."""

    secret: str
    key: ApiKeyView

    def __repr__(self) -> str:
        """Without the secret, wherever this may be printed."""
        return f"NewApiKey(key={self.key!r})"


class AuditView(Struct, frozen=True, kw_only=True):
    """One line of the audit log: who did what to what, and what came of it."""

    number: int
    at: datetime
    actor: str
    act: str
    target: str
    details: dict[str, Any]


def audit_view(numbered: NumberedLine) -> AuditView:
    line = numbered.line
    return AuditView(
        number=numbered.number,
        at=moment(line.at),
        actor=line.actor,
        act=line.act,
        target=line.target,
        details=line.details | (line.words or {}),
    )
