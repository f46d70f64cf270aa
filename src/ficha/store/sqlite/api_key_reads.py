"""Who may call, and who did what: the questions about API keys and the audit log."""

from __future__ import annotations

import apsw

from ...core.records import ApiKey
from .. import base as q
from . import rows
from .rows import Row, listed

# ruff: noqa: S608 (all that is put into these statements are names from this package)

_KEYS = (
    f"SELECT {listed(ApiKey.__struct_fields__, 'k.')}, u.at FROM api_keys k LEFT JOIN api_key_uses u ON u.key_id = k.id"
)
API_KEY = f"{_KEYS} WHERE k.digest = ?"
API_KEYS = f"{_KEYS} WHERE k.id < ? ORDER BY k.id DESC LIMIT ?"
AUDIT = f"SELECT number, {listed(rows.AUDIT_COLUMNS)} FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?"

_AFTER_ALL_IDS = "g"
_LAST_NUMBER = 2**63 - 1


def get_api_key(db: apsw.Connection, query: q.GetApiKey, now: int) -> q.ApiKeyList:
    return q.ApiKeyList(now, list(map(_row, db.execute(API_KEY, (query.digest,)))))


def list_api_keys(db: apsw.Connection, query: q.ListApiKeys, now: int) -> q.ApiKeyList:
    before = _AFTER_ALL_IDS if query.before is None else query.before
    return q.ApiKeyList(now, list(map(_row, db.execute(API_KEYS, (before, query.limit)))))


def _row(row: Row) -> q.ApiKeyRow:
    return q.ApiKeyRow(ApiKey(*row[:-1]), row[-1])


def list_audit(db: apsw.Connection, query: q.ListAudit, now: int) -> list[q.NumberedLine]:
    before = _LAST_NUMBER if query.before is None else query.before
    return [q.NumberedLine(row[0], rows.audit_of(row[1:])) for row in db.execute(AUDIT, (before, query.limit))]
