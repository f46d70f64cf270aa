"""The queries whose SQL is the same in every database but for its dialect: a file per noun, and this table of all.

A query is a generator (see `sql/dialect.py`). Those about rare records are in `keyed/`.
"""

from __future__ import annotations

from typing import Any, Final

from .. import base as q
from ..keyed.questions import KEYED_QUESTIONS
from ..sql.dialect import Answers
from .api_keys import API_KEY_QUESTIONS
from .figures import FIGURE_QUESTIONS
from .jobs import JOB_QUESTIONS
from .library import LIBRARY_QUESTIONS
from .operator_pages import OPERATOR_QUESTIONS
from .pages import PAGE_QUESTIONS
from .pools import POOL_QUESTIONS
from .providers import PROVIDER_QUESTIONS
from .retention import RETENTION_QUESTIONS
from .searches import SEARCH_QUESTIONS
from .state import STATE_QUESTIONS
from .suspects import SUSPECT_QUESTIONS
from .waiting import WAITING_QUESTIONS
from .workers import WORKER_QUESTIONS

QUESTIONS: Final[Answers] = {
    **(PAGE_QUESTIONS | JOB_QUESTIONS | POOL_QUESTIONS | API_KEY_QUESTIONS | STATE_QUESTIONS | KEYED_QUESTIONS),
    **(LIBRARY_QUESTIONS | OPERATOR_QUESTIONS | PROVIDER_QUESTIONS | SEARCH_QUESTIONS | FIGURE_QUESTIONS),
    **(RETENTION_QUESTIONS | WAITING_QUESTIONS | WORKER_QUESTIONS | SUSPECT_QUESTIONS),
}
"""Which function answers which query."""
SEVERAL: Final[frozenset[type[q.Query[Any]]]] = frozenset(SEARCH_QUESTIONS) | {
    q.GetQueueCounts,
    q.GetRetention,
    q.GetState,
    q.GetStats,
    q.GetWaiting,
    q.ListBatches,
    q.ListLibrary,
    q.ListRowsLeft,
    q.ListWorkers,
}
"""Queries of several statements: they need a transaction to be answered in one view."""
WALKS: Final = frozenset({*SEARCH_QUESTIONS, q.GetWaiting})
"""Queries that read an index page by page, each page from where the last one ended."""
