"""The `ficha` command. Data goes to standard output (with `--json` for programs), messages to standard error."""

import sys

from ..extras import MissingExtra, needs_extra

try:
    with needs_extra("cli"):
        from .main import main
except MissingExtra as missing:
    _words = f"error: {missing}"

    def main() -> None:
        sys.exit(_words)


__all__ = ["main"]
