"""Runs a program that is given as a text, as `python -c` does: `python -m tests.support.program TEXT ARGUMENT…`.

For `ForkedProcess`, which starts modules.
"""

import sys

if __name__ == "__main__":
    exec(sys.argv.pop(1), {"__name__": "__main__"})  # noqa: S102 (the text is the test's own)
