"""The `ficha` command. Data goes to standard output (with `--json` for programs), messages to standard error."""

from .main import main

__all__ = ["main"]
