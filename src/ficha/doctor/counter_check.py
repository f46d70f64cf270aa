"""Counters of accounts against the rows that they count, and balances against the last line of the ledger.

`ficha verify` reads every row; this reads the hot tables, one line of the ledger per account, and the sizes of files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from .database import Looking
from .findings import Finding
from .looked_over import LookedOver

MOST = 1_000
"""How many wrong accounts a query returns at most."""
NAMED = 5
"""How many of them a finding names."""


async def counters(seen: LookedOver[Looking]) -> AsyncIterator[Finding]:
    wrong = await miscounted(seen.database)
    if wrong:
        yield Finding(
            "counters",
            "COUNTERS_WRONG",
            "critical",
            f"The counters of {_named(wrong)} disagree with their rows, so quotas and parked jobs go wrong there.",
            "Run `ficha doctor --repair`: it counts the rows of each under its lock, and writes an audit line. Then "
            "find out who changes Ficha's tables by hand.",
        )
    unbalanced = [account for (account,) in await seen.database.ask("balances", limit=str(MOST))]
    if unbalanced:
        yield Finding(
            "counters",
            "BALANCE_WRONG",
            "critical",
            f"The balance of {_named(unbalanced)} is not that of the last line of its ledger.",
            "Run `ficha verify`, which adds up every line. No command repairs money: the ledger is what holds; compare "
            "it with a back-up and correct the account's row by hand.",
        )


async def miscounted(database: Looking) -> list[str]:
    """Returns the accounts that have a wrong counter."""
    found = [account for (account,) in await database.ask("miscounted", limit=str(MOST))]
    found += [account for (account,) in await database.ask("file_usage", limit=str(MOST))]
    return sorted(set(found))


def _named(accounts: list[str]) -> str:
    more = len(accounts) - NAMED
    what = "account" if len(accounts) == 1 else "accounts"
    return f"{what} {', '.join(accounts[:NAMED])}" + (f" and {more} more" if more > 0 else "")
