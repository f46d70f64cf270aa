"""The layer stays small enough to be read in one sitting, as the rooms of `tests/test_house.py` do."""

from pathlib import Path

import ficha.store.postgres.optimistic

MOST_LINES = 810


def test_the_layer_can_be_read_in_one_sitting() -> None:
    folder = Path(ficha.store.postgres.optimistic.__file__).parent
    assert 0 < sum(len(path.read_text().splitlines()) for path in folder.glob("*.py")) <= MOST_LINES
