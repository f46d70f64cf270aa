"""What the tests of the stores share."""

import pytest

# The suite is library code, whose assertions would otherwise fail without a word.
pytest.register_assert_rewrite("ficha.testing")
