"""Reads tables of scenario and traffic files. Every error names the key and says what is allowed."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .traffic import Unusable

T = TypeVar("T", bound=msgspec.Struct)


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Unusable(f"{path} is not TOML: {error}") from None


def check_keys(table: Any, allowed: Collection[str], where: str) -> Mapping[str, Any]:
    """Returns the table, if it has allowed keys only."""
    if not isinstance(table, Mapping):
        raise Unusable(f"{where} must be a table, not {table!r}")
    for key in table:
        if key not in allowed:
            raise Unusable(f"{_joined(where, key)} is not known; allowed are: {', '.join(sorted(allowed))}")
    return table


def named_tables(table: Any, known: Collection[str], where: str, noun: str) -> Mapping[str, Any]:
    """A table of tables, each for something that the application declares."""
    if not isinstance(table, Mapping):
        raise Unusable(f"{where} must be a table, not {table!r}")
    for name in table:
        if name not in known:
            raise Unusable(f"{_joined(where, name)}: there is no {noun} {name!r}; declared are: {', '.join(known)}")
    return table


def read_table(table: Any, kind: type[T], where: str) -> T:
    """The table as this struct."""
    read: dict[str, Any] = {}
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for key, value in check_keys(table, fields, where).items():
        try:
            read[key] = msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            raise Unusable(f"{_joined(where, key)} is {value!r}: {_words(error)}") from None
    try:
        return kind(**read)
    except TypeError:
        missing = [name for name, field in fields.items() if field.required and name not in read]
        raise Unusable(f"{_joined(where, missing[0])} is missing") from None
    except ValueError as error:
        raise Unusable(f"{where}: {error}") from None


def _words(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _joined(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
