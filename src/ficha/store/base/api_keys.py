"""Questions about credentials for HTTP, and the audit log."""

from __future__ import annotations

from msgspec import Struct

from ...core.records import ApiKey, AuditLine
from .query import Query


class ApiKeyRow(Struct, frozen=True):
    key: ApiKey
    last_used_at: int | None


class ApiKeyList(Struct, frozen=True):
    """API keys, with the time by which to judge whether they have expired."""

    now: int
    keys: list[ApiKeyRow]


class GetApiKey(Query[ApiKeyList], frozen=True):
    """The key whose text has this digest, or that has this id, if there is one."""

    digest: str | None = None
    key_id: str | None = None


class ListApiKeys(Query[ApiKeyList], frozen=True):
    """Newest first (by id, descending), in whatever state; `before` is the id after which the page starts."""

    before: str | None = None
    limit: int = 50


class GetRevokedApiKeys(Query[list[str]], frozen=True):
    """Those of these API keys that are revoked, in no particular order."""

    ids: tuple[str, ...]


class NumberedLine(Struct, frozen=True):
    number: int
    line: AuditLine


class ListAudit(Query[list[NumberedLine]], frozen=True):
    """Newest first; `before_number` is the number before which the page starts. `target`, `actor`: only lines of these,
    word for word."""

    before_number: int | None = None
    limit: int = 50
    target: str | None = None
    actor: str | None = None
