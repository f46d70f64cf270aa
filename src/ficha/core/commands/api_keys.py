"""Credentials for HTTP."""

from __future__ import annotations

from ..records import ApiKeyScope
from .base import Command


class CreateApiKey(Command, frozen=True):
    """Stores a key by the digest of its text. The text itself is made outside and never stored."""

    key_id: str
    name: str
    hint: str
    digest: str
    scope: ApiKeyScope
    account_id: str | None = None
    ttl_ms: int | None = None


class RevokeApiKey(Command, frozen=True):
    key_id: str


class UseApiKey(Command, frozen=True):
    """A key was used just now. This overwrites the time of its last use."""

    key_id: str
