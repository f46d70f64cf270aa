"""Running the command: within this process, or as a process of its own."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Done(NamedTuple):
    """What a run of the command came to."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one document that it printed."""
        (document,) = self.items
        return document

    @property
    def items(self) -> list[Any]:
        """The documents of a list."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        """The error that it told to a program."""
        return json.loads(self.err.splitlines()[-1])

    @property
    def rows(self) -> list[list[str]]:
        """The lines that a pipe gets, field by field."""
        return [line.split("\t") for line in self.out.splitlines()]


Run = Callable[..., Done]
