"""The queries about API keys."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Any, Final

from .. import base as q
from ..sql import tables as t
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement, sql_file
from ..sql.tables import Kind


def get_api_key(sql: Dialect, query: q.GetApiKey, now: int | None) -> Asking[q.ApiKeyList]:
    if query.key_id is not None:
        return (yield from _api_keys(sql, now, ("id", "=", query.key_id, "uuid"), 1))
    return (yield from _api_keys(sql, now, ("digest", "=", query.digest, "text"), 1))


def list_api_keys(sql: Dialect, query: q.ListApiKeys, now: int | None) -> Asking[q.ApiKeyList]:
    return (yield from _api_keys(sql, now, ("id", "<", query.before, "uuid"), query.limit))


def get_revoked_api_keys(sql: Dialect, query: q.GetRevokedApiKeys, now: int | None) -> Asking[list[str]]:
    text = f"SELECT {sql.read('id', 'uuid')} FROM ficha.api_keys WHERE revoked_at IS NOT NULL AND "
    rows = yield Statement(text + sql.among("id", 1, "uuid"), (sql.values({*query.ids}, "uuid"),))
    return [row[0] for row in rows]


def _api_keys(sql: Dialect, now: int | None, condition: tuple[str, str, Any, Kind], limit: int) -> Asking[q.ApiKeyList]:
    page = Select(sql, "SELECT * FROM ficha.api_keys")
    names = {"now": page.given(now, "number"), "clock": sql.clock, "used_at": sql.read("u.at", "instant")}
    page.matches(*condition)
    keys = page.statement("ORDER BY id DESC", limit)
    text = sql_file(__package__, "api_keys").format(**names, key=sql.selected(t.API_KEYS, "k"), keys=keys.text)
    rows = yield Statement(text, keys.values)
    found = [q.ApiKeyRow(t.API_KEYS.record(key), used_at) for _, used_at, *key in rows if key[0] is not None]
    return q.ApiKeyList(rows[0][0], found)


API_KEY_QUESTIONS: Final[Answers] = {
    q.GetApiKey: get_api_key,
    q.ListApiKeys: list_api_keys,
    q.GetRevokedApiKeys: get_revoked_api_keys,
}
