"""The statements of the layer, as they stand in `sql/`."""

from pathlib import Path

import pytest

from tests.stores.written_sql import ACTS, compared, sent


@pytest.mark.parametrize("act", [act for act in ACTS if act != "sweep"])
async def test_what_is_sent_is_what_the_file_says(migrated_url: str, act: str) -> None:
    compared(Path(__file__).parent / "sql" / f"{act}.sql", await sent(migrated_url, act, optimistic=True))
