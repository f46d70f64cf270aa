"""Who may call, and who did what: the questions about API keys and the audit log."""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

from typing import Any, Final

from ...core.records import ApiKey
from .. import base as q
from ..base import Clock
from . import rows
from .connections import Connection
from .sql_types import instant
from .tables import API_KEYS, AUDIT

_LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_LAST_NUMBER: Final = 2**63 - 1

_KEYS: Final = f"""
SELECT coalesce($1::bigint, {instant("clock_timestamp()")}) AS now, {API_KEYS.selected("k")}, {instant("u.at")}
"""
# The time is told also where there is no key.
GET_API_KEY: Final = f"""
{_KEYS} FROM (SELECT) AS one LEFT JOIN api_keys k ON k.digest = $2 LEFT JOIN api_key_uses u ON u.key_id = k.id
"""
LIST_API_KEYS: Final = f"""
{_KEYS} FROM (SELECT) AS one
LEFT JOIN (
    SELECT * FROM api_keys WHERE id < coalesce($2::uuid, '{_LAST_ID}') ORDER BY id DESC LIMIT $3
) AS k ON true
LEFT JOIN api_key_uses u ON u.key_id = k.id ORDER BY k.id DESC
"""
LIST_AUDIT: Final = f"""
SELECT a.number, {AUDIT.selected("a")} FROM audit a WHERE a.number < $1 ORDER BY a.number DESC LIMIT $2
"""


async def get_api_key(connection: Connection, query: q.GetApiKey, clock: Clock | None) -> q.ApiKeyList:
    return _keys(await connection.fetch(GET_API_KEY, None if clock is None else clock(), query.digest))


async def list_api_keys(connection: Connection, query: q.ListApiKeys, clock: Clock | None) -> q.ApiKeyList:
    now = None if clock is None else clock()
    return _keys(await connection.fetch(LIST_API_KEYS, now, query.before, query.limit))


def _keys(found: list[Any]) -> q.ApiKeyList:
    keys = [q.ApiKeyRow(ApiKey(*key), used_at) for _, *key, used_at in found if key[0] is not None]
    return q.ApiKeyList(found[0][0], keys)


async def list_audit(connection: Connection, query: q.ListAudit, clock: Clock | None) -> list[q.NumberedLine]:
    before = _LAST_NUMBER if query.before is None else query.before
    found = await connection.fetch(LIST_AUDIT, before, query.limit)
    return [q.NumberedLine(number, rows.audit_line(*line)) for number, *line in found]
