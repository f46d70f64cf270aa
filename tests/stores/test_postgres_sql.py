"""The statements of the plain path, as they stand in `sql/`."""

from pathlib import Path

import pytest

from tests.stores.written_sql import ACTS, compared, sent
from tests.support.sql_text import formatted


@pytest.mark.parametrize("act", ACTS)
async def test_what_is_sent_is_what_the_file_says(migrated_url: str, act: str) -> None:
    compared(Path(__file__).parent / "sql" / f"{act}.sql", await sent(migrated_url, act, optimistic=False))


def test_laying_out_a_statement_changes_only_space() -> None:
    text = "WITH a AS (SELECT x.y::text[], 'it''s (' || $1 FROM x WHERE x.n = ANY ($2) AND NOT EXISTS (SELECT FROM z))"
    assert "".join(formatted(text).split()) == "".join(text.split())
