"""Columns of waiting jobs, made from plain values."""

from __future__ import annotations

from uuid import UUID

from ficha.store.waiting_columns import Key, Lines


def lines_of(who: dict[str, list[Key]], page: int = 1_000) -> Lines:
    """The columns, as a database hands them over: page by page, whoever's line a page breaks off in."""
    found = Lines()
    rows = sorted((owner, key) for owner, waiting in who.items() for key in waiting)
    for start in range(0, len(rows), page):
        part = rows[start : start + page]
        owners = list(dict.fromkeys(owner for owner, _ in part))
        counts = [sum(owner == other for other, _ in part) for owner in owners]
        ranks = b"".join(rank.to_bytes(8, "big", signed=True) for _, (rank, _) in part)
        ids = b"".join(UUID(job_id).bytes for _, (_, job_id) in part)
        assert found.append(owners, counts, ranks, ids) == len(part)
    return found
