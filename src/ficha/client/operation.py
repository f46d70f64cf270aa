"""An operation, written once as a flow: a plain call on a `Client`, a call to await on an `AsyncClient`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from .effects import Flow, Stream

P = ParamSpec("P")
T = TypeVar("T")


class SyncDriver:
    """Drives flows by waiting for each step."""

    def run(self, begin: Callable[[], Flow[T]]) -> T:
        raise NotImplementedError

    def iterate(self, begin: Callable[[], Stream[T]]) -> Generator[T]:
        raise NotImplementedError


class AsyncDriver:
    """Drives flows by awaiting each step."""

    async def run(self, begin: Callable[[], Flow[T]]) -> T:
        raise NotImplementedError

    def iterate(self, begin: Callable[[], Stream[T]]) -> AsyncGenerator[T]:
        raise NotImplementedError


class operation(Generic[P, T]):
    """Makes a call out of a flow."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self.flow = flow
        update_wrapper(self, flow)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncDriver, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncDriver, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        # Arguments are checked when the call runs, so that errors in them are raised where the call is awaited.
        return lambda *args, **kwargs: client.run(partial(self.flow, client, *args, **kwargs))


class iteration(Generic[P, T]):
    """Makes an iterator out of a stream."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Stream[T]]) -> None:
        self.flow = flow
        update_wrapper(self, flow)  # type: ignore[arg-type]

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncDriver, owner: type) -> Callable[P, Generator[T]]: ...
    @overload
    def __get__(self, client: AsyncDriver, owner: type) -> Callable[P, AsyncGenerator[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self
        return lambda *args, **kwargs: client.iterate(partial(self.flow, client, *args, **kwargs))
