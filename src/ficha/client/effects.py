"""The steps that a flow asks its driver to do.

A flow is a generator that holds the logic of a call and does no I/O: it yields a step and is resumed with the
step's result, or with `Unreachable` thrown in. The same flow is driven by `Client` and by `AsyncClient`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from .file_form import FileForm

T = TypeVar("T")

READ_S: Final = 30.0
"""How long an answer may take."""


class Send(Struct, frozen=True, kw_only=True):
    """Send a request and read its whole answer; resumed with an `Answer`.

    harmless: whether it may be sent again when it is unknown whether the server carried it out.
    form: a file, in place of a body.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = {}
    read_s: float = READ_S
    harmless: bool = False
    form: FileForm | None = None


class Open(Struct, frozen=True):
    """Send a request and leave the answer's body to be read; resumed with an `Answer`, whose body is there only where
    the request failed. A stream that was open is closed."""

    request: Send


class Read(Struct, frozen=True):
    """Wait for more of the open stream; resumed with some bytes, or none at its end."""


class Pause(Struct, frozen=True):
    """Wait; resumed with nothing."""

    seconds: float


class Emit(Struct, Generic[T], frozen=True):
    """Hand a value to the caller who iterates; resumed with nothing once the caller wants the next."""

    value: T


Step: TypeAlias = Send | Open | Read | Pause
Flow: TypeAlias = Generator[Step, Any, T]
"""A call: what it returns is its result."""
Stream: TypeAlias = Generator[Step | Emit[T], Any, None]
"""An iteration: what it emits are its items."""


S = TypeVar("S")


class Ride(Generic[S, T]):
    """A flow under way: the step that it wants next, None once it has ended; and its result."""

    def __init__(self, flow: Generator[S, Any, T]) -> None:
        self._flow = flow
        self.step: S | None = None
        self.result: T
        self._go(lambda: next(flow))

    def answer(self, value: Any) -> None:
        self._go(lambda: self._flow.send(value))

    def fail(self, error: Exception) -> None:
        self._go(lambda: self._flow.throw(error))

    def _go(self, resume: Callable[[], S]) -> None:
        try:
            self.step = resume()
        except StopIteration as end:
            self.step, self.result = None, end.value
