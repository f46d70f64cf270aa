"""Turns what handlers return and steps store into JSON in its usual form, and back into the annotated type.

The usual form is that of pydantic's JSON mode: a model or dataclass is an object, a date, UUID or `Decimal` is text, an
enum is its value, a tuple or set is a list. A msgspec struct has msgspec's own form.

Pydantic is imported only once a value or a type needs it. What must stay out: payloads, which callers send as JSON.
"""

from __future__ import annotations

import functools
import inspect
import io
import logging
import numbers
import types
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, Never, NoReturn, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from .core.outcomes import Refusal
from .core.payload import CheckedJson, canonical, read_json
from .job_files import BaseJobFile

log = logging.getLogger("ficha.job")

_AS_THEY_ARE: Final = (bool, bytes, bytearray, memoryview, Iterator, io.IOBase)
"""Types that are JSON already, or never: pydantic would turn UTF-8 bytes into text, and exhaust an iterator."""
_NO_RESULTS: Final = (bytearray, memoryview, AsyncIterator, Awaitable, Iterator, io.IOBase)
"""Types whose values cannot be stored, and that msgspec would treat as something else."""
_UNSAID: Final = (Any, object, NoReturn, Never)
"""Annotations that tell nothing about the returned values."""
_PLAIN: Final = (str, int, float, bool, type(None), dict, list)
"""Types that come out of JSON as they went in."""
_OWN_FORMS: Final = frozenset({"format", "function-plain", "function-wrap", "to-string"})
_NOT_WALKED: Final = frozenset({"config", "default", "expected", "lax_schema", "metadata", "python_schema"})


def stored_json(value: Any, *, what: str, max_bytes: int, max_depth: int) -> str | Refusal:
    """The value's usual form as canonical JSON text, or why it has none; `what` names it in the message."""
    limits: dict[str, Any] = {"what": what, "max_bytes": max_bytes, "max_depth": max_depth}
    try:
        text = canonical(value, **limits)
        if not isinstance(text, Refusal) or text.code != "INVALID_PAYLOAD" or isinstance(value, CheckedJson):
            return text
    except TypeError:
        log.debug("%s is of a subclass of a plain type", what)
    try:
        return canonical(usual_form(value, max_depth), **limits)
    except Exception as error:
        # The value's own code may have failed, such as a model's serializer.
        said = " ".join(str(error).split())[:200] or type(error).__name__
        return Refusal("INVALID_PAYLOAD", f"{what} cannot be written as JSON: {said}; nothing was changed.")


def usual_form(value: Any, depth: int = 64) -> Any:
    """The value as plain JSON types. A value that has no such form, or is nested deeper, is left as it is."""
    if value is None or isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, Enum):
        return usual_form(value.value, depth)
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, int | float):
        return value if type(value) in (int, float) else (int if isinstance(value, int) else float)(value)
    if depth < 0:
        return value
    if isinstance(value, BaseJobFile):
        return value.json()
    if isinstance(value, Mapping):
        return {_key(key): usual_form(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | deque):
        return [usual_form(item, depth - 1) for item in value]
    if isinstance(value, set | frozenset):
        # Sorted, so that equal sets are equal JSON.
        return sorted((usual_form(item, depth - 1) for item in value), key=msgspec.json.encode)
    if isinstance(value, type):
        return value
    if isinstance(value, Struct):
        return msgspec.to_builtins(value, enc_hook=_form_inside, order="deterministic")
    serializer = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is not None:
        return serializer.to_python(value, mode="json", by_alias=True, warnings=False, fallback=_form_inside)
    if is_dataclass(value):
        return {field.name: usual_form(getattr(value, field.name), depth - 1) for field in fields(value)}
    return _form_of_one(value)


def _form_of_one(value: Any) -> Any:
    """The form of a value that is neither JSON nor a container: a date, a UUID, a path, a number of numpy or PyTorch,
    JSON in a view."""
    if isinstance(value, msgspec.Raw):
        return read_json(value)
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    try:
        return to_jsonable_python(value, inf_nan_mode="constants")
    except PydanticSerializationError:
        return value


def _form_inside(value: Any) -> Any:
    """The form of a value inside a model or struct whose library does not know it."""
    form = usual_form(value)
    if form is value:
        raise TypeError(f"it holds a {type(value).__name__}, which is not JSON")
    return form


def _key(key: Any) -> Any:
    form = usual_form(key)
    return form if isinstance(form, str) else key


class StoredType(Struct, frozen=True):
    """What an annotation tells about the values that a function returns.

    problem: why none of them can be stored; None if some can.
    reader: makes such a value from JSON text; None if the JSON is the value.
    """

    problem: str | None = None
    reader: Callable[[str], Any] | None = None

    def read(self, text: str, what: str) -> Any:
        """The value of a stored text, as the annotated type. JSON that does not fit is returned as it is: the stored
        value was paid for, and a wrong annotation must not lose it."""
        if self.reader is not None:
            try:
                return self.reader(text)
            except Exception as error:
                said = " ".join(str(error).split())[:500]
                log.warning("%s does not fit the annotated type, so it is given as plain JSON: %s", what, said)
        return read_json(text)


def returned_by(function: Callable[..., Any]) -> StoredType:
    """What a function's annotation tells about the values that it, or its coroutine, returns."""
    kind = return_annotation(function)
    if get_origin(kind) in (Awaitable, Coroutine):
        kind = get_args(kind)[-1]
    return stored_type(kind)


def stored_type(kind: Any) -> StoredType:
    """What a type tells about its values."""
    if kind in _UNSAID or kind in _PLAIN:
        return StoredType()
    try:
        return _stored_type(kind)
    except TypeError:
        # An annotation that has no hash, such as `Annotated[int, []]`.
        return _stored_type.__wrapped__(kind)


def return_annotation(function: Callable[..., Any]) -> Any:
    """The type of a function's return annotation; Any if there is none, or if a name in it cannot be found."""
    if isinstance(function, type):
        return function
    found = plain_function(function)

    def signature() -> None: ...

    try:
        signature.__annotations__ = {"return": found.__annotations__["return"]}
        names = getattr(inspect.unwrap(found), "__globals__", {})
        return get_type_hints(signature, names, include_extras=True)["return"]
    except Exception:
        # No annotation, or one of names that exist only for a type checker.
        return Any


def plain_function(function: Callable[..., Any]) -> Any:
    """The function behind a partial, or the `__call__` of an object."""
    found: Any = function
    while isinstance(found, functools.partial):
        found = found.func
    if not hasattr(found, "__globals__") and not inspect.ismethod(found):
        found = getattr(type(found), "__call__", found)  # noqa: B004 (the method itself is wanted)
    return found


def members(kind: Any) -> tuple[Any, ...]:
    """The members of a union; any other type alone."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


@functools.lru_cache(maxsize=1_024)
def _stored_type(kind: Any) -> StoredType:
    """Asks pydantic, which knows most types but not msgspec's structs; for those, asks msgspec, which knows all that
    they may hold."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        problem = _problem(adapter.core_schema, bytes_have_form=False)
    except PydanticSchemaGenerationError:
        return _stored_struct(kind)
    except Exception:
        log.debug("the type %r cannot be read", kind, exc_info=True)
        return StoredType()
    if problem is not None:
        return StoredType(problem)
    return StoredType(None, lambda text: adapter.validate_json(text, strict=True))


def _problem(node: Any, *, bytes_have_form: bool) -> str | None:
    """Why no value of a pydantic schema can be stored; None if some may be."""
    if isinstance(node, list | tuple):
        return next(filter(None, (_problem(item, bytes_have_form=bytes_have_form) for item in node)), None)
    if not isinstance(node, dict) or node.get("serialization_exclude") is True:
        return None
    kind = node.get("type")
    if isinstance(kind, str):
        form = node.get("serialization")
        if isinstance(form, dict) and form.get("type") in _OWN_FORMS:
            return None
        config = node.get("config") or {}
        bytes_have_form = bytes_have_form or config.get("ser_json_bytes") in ("base64", "hex")
        if kind == "bytes" and not bytes_have_form:
            return "bytes are not JSON; store them elsewhere and return their address, or return base64 text"
        if kind in ("callable", "generator", "is-instance", "is-subclass"):
            said = {"callable": "a function", "generator": "an iterator", "is-subclass": "a class"}
            return f"{said.get(kind) or getattr(node['cls'], '__name__', node['cls'])} is not JSON"
        if kind in ("tagged-union", "union"):
            choices = node["choices"].values() if isinstance(node["choices"], dict) else node["choices"]
            found = [
                _problem(choice[0] if isinstance(choice, tuple) else choice, bytes_have_form=bytes_have_form)
                for choice in choices
            ]
            # If one of them can be stored, only the value decides.
            return found[0] if all(found) else None
    parts = [part for key, part in node.items() if key not in _NOT_WALKED]
    return _problem(parts, bytes_have_form=bytes_have_form)


def _stored_struct(kind: Any) -> StoredType:
    """The same for a type that holds a msgspec struct, or a class that neither library knows."""
    found = get_origin(kind) or kind
    if isinstance(found, type) and issubclass(found, _NO_RESULTS):
        return StoredType(f"{found.__name__} is not JSON; return a model, a dataclass or plain JSON")
    try:
        known = msgspec.inspect.type_info(kind)
    except Exception:
        # For example, a union whose members msgspec cannot tell apart.
        return StoredType()
    foreign = [cls for cls in _foreign(known, set()) if not _may_be_stored(cls)]
    if foreign:
        return StoredType(f"{foreign[0].__name__} is not JSON; return a model, a dataclass or plain JSON")
    return StoredType(None, msgspec.json.Decoder(kind, dec_hook=_read_inside).decode)


def _foreign(node: Any, seen: set[int]) -> Iterator[type]:
    """The classes within a type of msgspec's that it does not know."""
    if isinstance(node, msgspec.inspect.CustomType):
        yield node.cls
    elif isinstance(node, tuple):
        for item in node:
            yield from _foreign(item, seen)
    elif isinstance(node, Struct) and id(node) not in seen:
        seen.add(id(node))
        yield from _foreign(msgspec.structs.astuple(node), seen)


def _may_be_stored(cls: type) -> bool:
    """Whether values of a class that msgspec does not know may have a usual form: models and numpy's numbers have one;
    for an abstract class or protocol only the value decides."""
    is_open = inspect.isabstract(cls) or getattr(cls, "_is_protocol", False)
    return is_open or hasattr(cls, "__pydantic_validator__") or issubclass(cls, numbers.Number)


def _read_inside(cls: type, plain: Any) -> Any:
    """A value of a class that msgspec does not know."""
    validator = getattr(cls, "__pydantic_validator__", None)
    if validator is None:
        raise NotImplementedError
    return validator.validate_json(msgspec.json.encode(plain), strict=True)
