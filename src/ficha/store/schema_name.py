"""The PostgreSQL schema that holds all that Ficha has in a database: which names it may have, and how SQL names it.

SQL texts are written for the schema `ficha`, and name it in full before every table, type and function, so that no
`search_path` matters. In a text the word `ficha` is always the schema; `in_schema` puts another name in its place.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

DEFAULT_SCHEMA: Final = "ficha"
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_WRITTEN: Final = re.compile(rf"\b{DEFAULT_SCHEMA}\b(\.?)")
_OTHERS: Final = frozenset({"public", "information_schema"})
RESERVED: Final = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like
    limit localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary
    references returning right select session_user similar some symmetric system_user table tablesample then to
    trailing true union unique user using variadic verbose when where window with
    """.split()  # noqa: SIM905 (a hundred words are read better so)
)
"""Words that PostgreSQL does not accept as a schema's name without quotes."""


def schema_problem(name: object) -> str | None:
    """What is wrong with the name, in words; None if nothing is."""
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        return f"a schema's name has up to 48 lower-case letters, digits and _, no digit first; {name!r} is none"
    if name in _OTHERS or name.startswith("pg_"):
        return f"the schema {name!r} is not for Ficha alone, and rights are revoked on Ficha's: choose another name"
    if name in RESERVED:
        return f"{name!r} is a reserved word of PostgreSQL; choose another name for the schema"
    return None


@lru_cache(maxsize=4096)
def in_schema(text: str, schema: str) -> str:
    """The text for tables in this schema; "" is for a database that has no schemas."""
    if schema == DEFAULT_SCHEMA:
        return text
    return _WRITTEN.sub(rf"{schema}\1" if schema else "", text)
