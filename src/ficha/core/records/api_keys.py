"""Credentials for HTTP, and the audit log."""

from __future__ import annotations

from typing import Any, Literal

from .base import Record

ApiKeyScope = Literal["user", "service", "admin", "viewer"]


class ApiKey(Record, frozen=True):
    """A credential for HTTP. Of the key's text only the beginning and a digest are ever stored."""

    id: str
    name: str
    hint: str
    """The beginning of the text, so that people can tell their keys apart."""
    digest: str
    scope: ApiKeyScope
    account_id: str | None
    """The account that a user's key acts for; keys of other scopes belong to no account."""
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None


class ApiKeyUse(Record, frozen=True):
    """When a key was last used. Stored apart from the key, because it changes often."""

    key_id: str
    at: int


class AuditLine(Record, frozen=True):
    """One immutable line: who did what to what, with which outcome. The store numbers the lines."""

    at: int
    actor: str
    act: str
    target: str
    details: dict[str, Any]
    account_id: str | None = None
    """The account that `words` are about; None without words."""
    words: dict[str, Any] | None = None
    """What people wrote: names, reasons, keys. Only the erasure of the account takes them off the line."""
