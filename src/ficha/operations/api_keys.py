"""API keys: made, listed, looked up by their secret, revoked. The secret itself is shown once and never stored."""

from __future__ import annotations

from typing import get_args

from .. import api_key_text
from .. import validation as arg
from ..core.commands import CreateApiKey, RevokeApiKey, UseApiKey
from ..core.outcomes import ApiKeyChanged, Used
from ..core.records import ApiKeyScope
from ..engine.views import ApiKeyView, NewApiKey, Page
from ..ids import new_id
from .base import Operations


class ApiKeyOperations(Operations):
    async def create_api_key(
        self, name: str, *, scope: ApiKeyScope = "user", account: str | None = None, ttl_s: float | None = None
    ) -> NewApiKey:
        """Creates a key. A key of scope `user` belongs to one account; keys of the other scopes have none.

        At most two valid keys share a name, for rotation: create the second, switch its users to it, revoke the first.
        """
        if scope not in get_args(ApiKeyScope):
            raise arg.invalid(f"scope must be one of {', '.join(get_args(ApiKeyScope))}, not {scope!r}")
        secret = api_key_text.new_secret(scope)
        command = CreateApiKey(
            new_id(),
            arg.name(name, "an API key"),
            api_key_text.hint_of(secret),
            api_key_text.digest_of(secret),
            scope,
            arg.optional_name(account, "an account"),
            None if ttl_s is None else max(1, arg.milliseconds(ttl_s, "ttl_s")),
        )
        await self._ask(command, ApiKeyChanged)
        return NewApiKey(secret=secret, key=await self._api_key(command.digest))

    async def api_keys(self, *, after: str | None = None, limit: int = 50) -> Page[ApiKeyView]:
        """A page of all keys, newest first, expired and revoked keys included."""
        return await self.queries.api_keys(
            None if after is None else arg.job_id(after, "API key"),
            arg.count(limit, "limit", self.limits.page_items),
        )

    async def revoke_api_key(self, key_id: str) -> ApiKeyView:
        """Revokes a key at once. A repeat changes nothing."""
        changed = await self._ask(RevokeApiKey(arg.job_id(key_id, "API key")), ApiKeyChanged)
        return await self._api_key(changed.key.digest)

    async def api_key(self, secret: str) -> ApiKeyView | None:
        """The key with this secret, in any state; None if there is none. A malformed secret costs no query."""
        return (
            await self.queries.api_key(api_key_text.digest_of(secret)) if api_key_text.is_well_formed(secret) else None
        )

    async def use_api_key(self, key_id: str) -> None:
        """Records that the key was used just now. Callers need not record every use."""
        await self._ask(UseApiKey(arg.job_id(key_id, "API key")), Used)

    async def _api_key(self, digest: str) -> ApiKeyView:
        found = await self.queries.api_key(digest)
        assert found is not None, "an API key is never deleted"
        return found
