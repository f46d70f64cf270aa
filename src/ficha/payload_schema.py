"""A handler's signature as the schema of its payload: what JSON text fits, and the values that the handler gets.

Pydantic reads it, strictly: a text is no number. What JSON has no form for (a date, a UUID, a model) comes from its
usual JSON form.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from inspect import Parameter
from typing import Annotated, Any, Final, NoReturn, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    GetCoreSchemaHandler,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, PydanticUndefined, SchemaError, core_schema

PROBLEMS_TOLD: Final = 10
PROBLEMS_READ: Final = 1_000
"""With more problems than this, only their number is told: to spell out a hundred thousand takes half a second."""


class Payload:
    """What a tool takes.

    names: the fields that its handler knows by name.
    is_open: it takes others too.
    is_item: it describes one item of the list that a handler of several jobs asks for beside them.
    """

    def __init__(self, kind: Any, names: frozenset[str], *, is_open: bool = False, is_item: bool = False) -> None:
        self.names = names
        self.is_open = is_open
        self.is_item = is_item
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self._validate = self._adapter.validator.validate_json

    def read(self, text: str) -> Any:
        """The payload as the handler gets it: a dict by parameter, or an item. Raises pydantic's ValidationError."""
        return self._validate(text, strict=True)

    def fields(self, value: Any) -> Mapping[str, Any]:
        """The fields by name of what `read` returned, those that were left out included."""
        return value if isinstance(value, dict) else {name: getattr(value, name) for name in self.names}

    def json(self, value: Any) -> Any:
        """What `read` returned as JSON again, with the fields that were left out."""
        return self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of what `read` takes."""
        schema = self._adapter.json_schema(schema_generator=_JsonSchema)
        if "$ref" not in schema:
            return schema
        # A model that holds itself stands among the definitions; a form or a check wants its properties on top.
        found = schema["$defs"][schema["$ref"].rpartition("/")[2]]
        return {**found, "$defs": schema["$defs"]}


def payload_of(name: str, handler: Callable[..., Any], *, takes_several: bool = False) -> Payload:
    """What the handler takes after the job, or after its several jobs; an error if that can be no payload."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
        if not parameters or parameters[0].kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
            first = "the jobs" if takes_several else "the job"
            raise TypeError(f"its handler takes no argument by its place; its first one must be {first}")
        payload = _of_several(handler, parameters[1:]) if takes_several else _of_one(handler, parameters)
        payload.schema()
    except (PydanticSchemaGenerationError, PydanticUserError, PydanticUndefinedAnnotation, SchemaError) as error:
        # What pydantic says after its first sentence is advice on models, and there is none here.
        words = " ".join(str(error).partition("\n\n")[0].split()).partition(". ")[0]
        raise ValueError(f"tool {name!r}: no payload can have these types: {words}") from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"tool {name!r}: {error}") from error
    return payload


def _of_one(handler: Callable[..., Any], parameters: list[Parameter]) -> Payload:
    first, *rest = parameters
    hints = _hints(handler, rest)
    others = next((hints[parameter.name] for parameter in rest if parameter.kind is Parameter.VAR_KEYWORD), None)
    fields = {parameter.name: parameter for parameter in rest if parameter.kind is not Parameter.VAR_KEYWORD}
    for parameter in fields.values():
        _refuse_unnamed(parameter)
        _refuse_aliases(parameter, hints[parameter.name])
    taken = first.name if first.kind is Parameter.POSITIONAL_OR_KEYWORD else None

    class Signature:
        """Reads to a dict of just these fields, whatever their names.

        A model made from them would not do: it keeps names such as `copy`, `model_…` and `_any` for itself.
        """

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, make: GetCoreSchemaHandler) -> CoreSchema:
            read = {name: _field(parameter, make.generate_schema(hints[name])) for name, parameter in fields.items()}
            if others is None:
                return core_schema.typed_dict_schema(read, extra_behavior="forbid")
            if taken is not None:
                read[taken] = core_schema.typed_dict_field(make.generate_schema(_TAKEN), required=False)
            return core_schema.typed_dict_schema(
                read, extra_behavior="allow", extras_schema=make.generate_schema(others)
            )

    return Payload(Signature, frozenset(fields), is_open=others is not None)


def _field(parameter: Parameter, schema: CoreSchema) -> core_schema.TypedDictField:
    if parameter.default is Parameter.empty:
        return core_schema.typed_dict_field(schema)
    return core_schema.typed_dict_field(
        core_schema.with_default_schema(schema, default=parameter.default), required=False
    )


def _of_several(handler: Callable[..., Any], rest: list[Parameter]) -> Payload:
    if not rest:
        return Payload(dict[str, Any], frozenset(), is_open=True)
    parameter = rest[0]
    hint = _hints(handler, rest)[parameter.name]
    items = get_args(hint) if get_origin(hint) in (list, Sequence) else ()
    names = _field_names(items[0]) if items else None
    if len(rest) > 1 or names is None:
        raise TypeError(
            "a handler with jobs_per_call takes (jobs) or (jobs, payloads: list[Model]), where Model is a pydantic "
            "model, a dataclass or a TypedDict that describes one job's payload"
        )
    return Payload(items[0], names, is_item=True)


def _field_names(kind: Any) -> frozenset[str] | None:
    """The fields of a model, dataclass or TypedDict; None for anything else."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return frozenset(kind.model_fields)
    if isinstance(kind, type) and is_dataclass(kind):
        return frozenset(kind.__dataclass_fields__)
    # Only a TypedDict says which of its keys are required.
    return kind.__required_keys__ | kind.__optional_keys__ if hasattr(kind, "__required_keys__") else None


def _hints(handler: Callable[..., Any], parameters: list[Parameter]) -> dict[str, Any]:
    """The types of these parameters alone: what the job is annotated with need not exist when the program runs."""
    function: Any = handler
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__globals__") and not inspect.ismethod(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004 (the method itself is wanted)

    def signature() -> None: ...

    signature.__annotations__ = {
        parameter.name: Any if parameter.annotation is Parameter.empty else parameter.annotation
        for parameter in parameters
    }
    try:
        return get_type_hints(signature, getattr(inspect.unwrap(function), "__globals__", {}), include_extras=True)
    except NameError as error:
        raise TypeError(f"{error}: the types of a handler's fields must be known where its module is") from None


def _refuse_unnamed(parameter: Parameter) -> None:
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY):
        raise TypeError(f"its handler takes {parameter}; a payload's fields are named")
    if isinstance(parameter.default, FieldInfo):
        raise TypeError(
            f"the default of {parameter.name} is a Field; write {parameter.name}: Annotated[…, Field(…)] = default, so "
            "that the handler can be called like any function"
        )


def _refuse_aliases(parameter: Parameter, hint: Any) -> None:
    for note in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
        if not isinstance(note, FieldInfo):
            continue
        if note.alias is not None or note.validation_alias is not None:
            raise TypeError(f"the Field of {parameter.name} has an alias; a field has its parameter's name")
        if note.default is not PydanticUndefined or note.default_factory is not None:
            raise TypeError(f"the Field of {parameter.name} has a default; it belongs behind the parameter")


def _refuse(value: Any) -> NoReturn:
    raise PydanticCustomError("taken", "No field can have this name, which is that of the handler's first parameter")


_TAKEN: Final = Annotated[Any, AfterValidator(_refuse), WithJsonSchema({"not": {}})]


class _JsonSchema(GenerateJsonSchema):
    """A default that JSON has no form for is left out without a word."""

    ignored_warning_kinds: Final = {"skipped-choice", "non-serializable-default"}  # type: ignore[misc]


def problems(error: ValidationError) -> str:
    """What does not fit, one sentence for each field, without the values: they may be large, or nobody's business."""
    count = error.error_count()
    if count > PROBLEMS_READ:
        return f"{count} problems, too many to name"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [
        _cut(".".join(map(str, problem["loc"])), 100) + (": " if problem["loc"] else "") + _cut(problem["msg"], 300)
        for problem in found[:PROBLEMS_TOLD]
    ]
    return "; ".join(told) + (f"; and {count - PROBLEMS_TOLD} more" if count > PROBLEMS_TOLD else "")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
