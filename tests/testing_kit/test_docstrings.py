"""The examples in the words of the testing kit run."""

import doctest

import pytest

from ficha.testing import clock, fake_job, sandbox


@pytest.mark.parametrize("module", [clock, fake_job, sandbox], ids=lambda module: module.__name__)
def test_the_examples_run(module: object) -> None:
    done = doctest.testmod(module)  # type: ignore[arg-type]
    assert done.attempted > 0
    assert done.failed == 0
