"""Names in paths: an account called `a/b` is `/api/admin/accounts/a%2Fb`, and its slash does not split the path."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

_KEPT: Final = {"%": "%25", "/": "%2F"}
_DECODED: Final = {code: character for character, code in _KEPT.items()}
_CHARACTER: Final = re.compile("[%/]")
_CODE: Final = re.compile("%25|%2F")


class NameConvertor(Convertor[str]):
    """The parameter of a route that is a name: one part of the path."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return _CODE.sub(lambda found: _DECODED[found[0]], value)

    def to_string(self, value: str) -> str:
        return _encoded(value)


register_url_convertor("ficha_name", NameConvertor())


def with_encoded_slashes(scope: Scope) -> Scope:
    """The scope, with `%2F` and `%25` still encoded in its path. Servers decode the whole path, and then a name's slash
    cannot be told from the path's own."""
    path, raw = scope["path"], scope.get("raw_path")
    if "%" not in path and (raw is None or b"%" not in raw):
        return scope
    root = scope.get("root_path", "")
    root = root if path.startswith(root) else ""
    parts = path.split("/") if raw is None else raw.decode("latin-1").split("/")
    if raw is not None:
        parts = [unquote(part) for part in parts]
        if "/".join(parts) != path:
            # The two are not the same path: something on the way has rewritten only one of them.
            parts = path.split("/")
    return {**scope, "path": "/".join([root, *map(_encoded, parts[root.count("/") + 1 :])])}


def _encoded(part: str) -> str:
    return _CHARACTER.sub(lambda found: _KEPT[found[0]], part)
