"""Optional dependencies. `pip install ficha` brings what an application on SQLite needs; if an import needs more, the
error names the extra to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtra(ImportError):
    """A module that comes with an extra of Ficha is not installed; the message says how to install it."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Surrounds imports of modules that this extra installs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "ficha":
            raise
        words = f"{error.name} is not installed; it comes with an extra: pip install 'ficha[{extra}]'"
        raise MissingExtra(words, name=error.name) from error
