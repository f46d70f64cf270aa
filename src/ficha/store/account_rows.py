"""Counts an account's rows, for both SQL stores; the account's counters must agree with these counts."""

from __future__ import annotations

from typing import Final

from ..core.records import AccountRows
from .sql.dialect import sql_file
from .sql.tables import Row

_COLUMNS: Final = sql_file(f"{__package__}.sql", "account_rows")


def row_counts(account: str) -> str:
    """The columns of an `AccountRows`; `account` is the SQL expression of the account's id."""
    return _COLUMNS.format(account=account)


def account_rows(row: Row) -> AccountRows:
    return AccountRows(*row)
