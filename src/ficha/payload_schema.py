"""A handler's signature as the schema of its payload: which JSON is valid, and the values that the handler gets.

Pydantic parses in strict mode: a string is not accepted as a number. Types that JSON does not have (a date, a UUID, a
model) are parsed from their usual JSON form.
"""

from __future__ import annotations

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

from .garbage import uncollected
from .job_files import FORMAT, BaseJobFile, FoundFiles
from .json_values import plain_function

LARGE: Final = 16_384
"""A payload of at least this many characters is read without garbage collection."""
PROBLEMS_SHOWN: Final = 10
PROBLEMS_READ: Final = 1_000
"""Beyond this many problems, only their number is shown: formatting a hundred thousand takes half a second."""


class Payload:
    """The payload of a tool.

    names: the fields that its handler has as parameters.
    is_open: whether it accepts others too.
    is_item: whether it describes one item of the list of payloads that a handler of several jobs takes.
    """

    def __init__(self, kind: Any, names: frozenset[str], *, is_open: bool = False, is_item: bool = False) -> None:
        self.names = names
        self.is_open = is_open
        self.is_item = is_item
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self._validate = self._adapter.validator.validate_json
        self.has_files = _names_files(self.schema())
        """Whether it may name files."""

    def read(self, text: str, found: FoundFiles | None = None) -> Any:
        """The payload as the handler gets it: a dict by parameter, or an item. Raises pydantic's ValidationError.

        found: collects the files that the payload names.
        """
        if self.has_files and found is None:
            found = FoundFiles(BaseJobFile)
        if len(text) < LARGE:
            return self._validate(text, strict=True, context=found)
        with uncollected:
            return self._validate(text, strict=True, context=found)

    def fields(self, value: Any) -> Mapping[str, Any]:
        """The fields by name of what `read` returned, defaults included."""
        return value if isinstance(value, dict) else {name: getattr(value, name) for name in self.names}

    def json(self, value: Any) -> Any:
        """What `read` returned as JSON again, defaults included."""
        return self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of what `read` accepts."""
        schema = self._adapter.json_schema(schema_generator=_JsonSchema)
        if "$ref" not in schema:
            return schema
        # A recursive model is one of the definitions; forms and validators need its properties at the top.
        found = schema["$defs"][schema["$ref"].rpartition("/")[2]]
        return {**found, "$defs": schema["$defs"]}


def _names_files(schema: Any) -> bool:
    """Whether a part of a JSON Schema is a file's id."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return (isinstance(schema, dict) and schema.get("format") == FORMAT) or any(map(_names_files, parts))


def payload_of(name: str, handler: Callable[..., Any], *, takes_several: bool = False) -> Payload:
    """The payload that the handler takes after the job (or jobs); raises if its parameters cannot be one."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
        if not parameters or parameters[0].kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
            first = "the jobs" if takes_several else "the job"
            raise TypeError(f"its handler has no positional parameter; the first one must be {first}")
        payload = _of_several(handler, parameters[1:]) if takes_several else _of_one(handler, parameters)
        payload.schema()
    except (PydanticSchemaGenerationError, PydanticUserError, PydanticUndefinedAnnotation, SchemaError) as error:
        # After its first sentence, pydantic's message is advice on models, which does not apply here.
        reason = " ".join(str(error).partition("\n\n")[0].split()).partition(". ")[0]
        raise ValueError(f"tool {name!r}: a payload cannot have these types: {reason}") from error
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
    reserved = first.name if first.kind is Parameter.POSITIONAL_OR_KEYWORD else None

    class Signature:
        """Parses to a dict of exactly these fields, whatever their names.

        A pydantic model would not do: it reserves names such as `copy`, `model_…` and `_any`.
        """

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, make: GetCoreSchemaHandler) -> CoreSchema:
            read = {name: _field(parameter, make.generate_schema(hints[name])) for name, parameter in fields.items()}
            if others is None:
                return core_schema.typed_dict_schema(read, extra_behavior="forbid")
            if reserved is not None:
                read[reserved] = core_schema.typed_dict_field(make.generate_schema(_RESERVED), required=False)
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
    # Only a TypedDict has this attribute.
    return kind.__required_keys__ | kind.__optional_keys__ if hasattr(kind, "__required_keys__") else None


def _hints(handler: Callable[..., Any], parameters: list[Parameter]) -> dict[str, Any]:
    """The types of these parameters only: the annotation of the job may not exist at run time."""

    def signature() -> None: ...

    signature.__annotations__ = {
        parameter.name: Any if parameter.annotation is Parameter.empty else parameter.annotation
        for parameter in parameters
    }
    try:
        names = getattr(inspect.unwrap(plain_function(handler)), "__globals__", {})
        return get_type_hints(signature, names, include_extras=True)
    except NameError as error:
        raise TypeError(f"{error}: the types of a handler's parameters must be names of its module") from None


def _refuse_unnamed(parameter: Parameter) -> None:
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY):
        raise TypeError(f"its handler has the parameter {parameter}; a payload's fields are passed by name")
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
            raise TypeError(f"the Field of {parameter.name} has a default; write it as the parameter's default")


def _refuse(value: Any) -> NoReturn:
    raise PydanticCustomError("reserved", "This name is reserved: it is that of the handler's first parameter")


_RESERVED: Final = Annotated[Any, AfterValidator(_refuse), WithJsonSchema({"not": {}})]


class _JsonSchema(GenerateJsonSchema):
    """Leaves out defaults that JSON cannot express, without a warning."""

    ignored_warning_kinds: Final = {"skipped-choice", "non-serializable-default"}  # type: ignore[misc]


def problems(error: ValidationError) -> str:
    """The problems, one sentence for each field, without the values, which may be large or secret."""
    count = error.error_count()
    if count > PROBLEMS_READ:
        return f"{count} problems, too many to name"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [
        _cut(".".join(map(str, problem["loc"])), 100) + (": " if problem["loc"] else "") + _cut(problem["msg"], 300)
        for problem in found[:PROBLEMS_SHOWN]
    ]
    return "; ".join(shown) + (f"; and {count - PROBLEMS_SHOWN} more" if count > PROBLEMS_SHOWN else "")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
