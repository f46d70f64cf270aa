"""The queries about suspects. There are few of them, and as many leases as running jobs."""

from __future__ import annotations

from typing import Final

from ...core.suspects import Suspect
from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement


def list_suspects(sql: Dialect, query: q.ListSuspects, now: int | None) -> Asking[list[Suspect]]:
    found = f"SELECT {sql.read('r.job_id', 'uuid')}, r.pool, j.tool, r.recoveries FROM ficha.ready r "  # noqa: S608
    page = Select(sql, f"{found}JOIN ficha.jobs j ON j.id = r.job_id", (sql.values(query.pools, "text"),))
    page.where(sql.among("r.pool", 1, "text"))
    page.where("r.recoveries > 0")
    return [Suspect(*row) for row in (yield page.statement("ORDER BY r.rank, r.job_id", query.limit))]


def get_company(sql: Dialect, query: q.GetCompany, now: int | None) -> Asking[q.Company]:
    text = "SELECT count(*), count(*) FILTER (WHERE recoveries > 0) FROM ficha.leases WHERE worker = "
    [row] = yield Statement(text + sql.parameter(1, "text"), (query.worker,))
    return q.Company(*row)


SUSPECT_QUESTIONS: Final[Answers] = {q.ListSuspects: list_suspects, q.GetCompany: get_company}
