"""Counts an account's rows, for both SQL stores: what its counters have to agree with."""

from __future__ import annotations

from typing import Final

from ..core.records import AccountRows
from .sql.dialect import sql_file
from .sql.tables import Row

_COLUMNS: Final = sql_file(f"{__package__}.sql", "account_rows")


def row_counts(account: str) -> str:
    """The columns of a record, where this expression is the account's id."""
    return _COLUMNS.format(account=account)


def account_rows(row: Row) -> AccountRows:
    return AccountRows(*row)
