"""API keys: create, use, revoke. Two keys of one name may be valid at a time, so that a new one can replace the old."""

from __future__ import annotations

from typing import Final, Literal

from msgspec.structs import replace

from .commands import CreateApiKey, RevokeApiKey, UseApiKey
from .outcomes import ApiKeyChanged, Refusal, Used
from .policy import MILLISECOND
from .records import ApiKey, ApiKeyUse
from .refusals import account_closed, no_account, no_api_key
from .rule import Audited, Needs, Rule
from .workspace import Workspace

ApiKeyState = Literal["live", "expired", "revoked"]

MOST_LIVE: Final = 2
"""How many keys of one name may be valid at the same time."""


def create(ws: Workspace, command: CreateApiKey) -> ApiKeyChanged | Refusal:
    refusal = _refuse_owner(ws, command) or _refuse_name(ws, command.name)
    if refusal is not None:
        return refusal
    if ws.api_key(command.key_id) is not None:
        return Refusal("INVALID_STATE", f"the API key {command.key_id} exists already; nothing was changed.")
    key = ApiKey(
        command.key_id,
        command.name,
        command.hint,
        command.digest,
        command.scope,
        command.account_id,
        created_at=ws.now,
        expires_at=None if command.ttl_ms is None else ws.now + command.ttl_ms * MILLISECOND,
    )
    ws.put_api_key(key)
    return ApiKeyChanged(key)


def _refuse_owner(ws: Workspace, command: CreateApiKey) -> Refusal | None:
    if command.scope != "user":
        return (
            None
            if command.account_id is None
            else Refusal(
                "INVALID_ARGUMENT",
                f"a key of scope {command.scope} belongs to no account, so it cannot be that of account "
                f"{command.account_id}; nothing was changed. Leave the account out, or make it a user's key.",
            )
        )
    if command.account_id is None:
        return Refusal("INVALID_ARGUMENT", "a user's key needs the account that it acts for; nothing was changed.")
    account = ws.account(command.account_id)
    return no_account(command.account_id) if account is None else account_closed(account)


def _refuse_name(ws: Workspace, name: str) -> Refusal | None:
    live = sorted(key.id for key in ws.api_keys_of(name) if state_of(key, ws.now) == "live")
    if len(live) < MOST_LIVE:
        return None
    return Refusal(
        "INVALID_STATE",
        f"{len(live)} keys named {name!r} are valid already ({', '.join(live)}); nothing was changed. Revoke one.",
        details={"live": live},
    )


def revoke(ws: Workspace, command: RevokeApiKey) -> ApiKeyChanged | Refusal:
    """From now on the key is refused. Revoking it again changes nothing."""
    key = ws.api_key(command.key_id)
    if key is None:
        return no_api_key(command.key_id)
    if key.revoked_at is not None:
        return ApiKeyChanged(key, changed=False)
    key = replace(key, revoked_at=ws.now)
    ws.put_api_key(key)
    return ApiKeyChanged(key)


def use(ws: Workspace, command: UseApiKey) -> Used:
    ws.put_api_key_use(ApiKeyUse(command.key_id, ws.now))
    return Used(command.key_id)


def state_of(key: ApiKey, now: int) -> ApiKeyState:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "live"


def _needs_name(wanted: Needs, command: CreateApiKey) -> None:
    if command.account_id is not None:
        wanted.accounts.add(command.account_id)
    wanted.api_keys.add(command.key_id)
    wanted.api_keys_of.add(command.name)


def _needs_key(wanted: Needs, command: RevokeApiKey) -> None:
    wanted.api_keys.add(command.key_id)


def _needs_nothing(_: Needs, __: UseApiKey) -> None:
    """The new time of use overwrites the old one, so nothing is loaded."""


def _audit_creation(command: CreateApiKey, outcome: ApiKeyChanged) -> Audited:
    return Audited("create_api_key", f"API key {command.key_id}", _particulars(outcome.key))


def _audit_revocation(command: RevokeApiKey, outcome: ApiKeyChanged) -> Audited:
    return Audited("revoke_api_key", f"API key {command.key_id}", _particulars(outcome.key))


def _particulars(key: ApiKey) -> dict[str, str | None]:
    return {"name": key.name, "scope": key.scope, "hint": key.hint, "account": key.account_id}


RULES = (
    Rule(
        CreateApiKey,
        decide=create,
        needs=_needs_name,
        refuses=("ACCOUNT_CLOSED", "INVALID_ARGUMENT", "INVALID_STATE", "NOT_FOUND"),
        audit=_audit_creation,
    ),
    Rule(RevokeApiKey, decide=revoke, needs=_needs_key, refuses=("NOT_FOUND",), audit=_audit_revocation),
    Rule(UseApiKey, decide=use, needs=_needs_nothing, locks_account=False),
)
