"""Names in paths: an account called `a/b` is `/api/admin/accounts/a%2Fb`, and its slash does not split the path. Hosts
that cut the path off which they have mounted us at."""

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


def with_whole_path(scope: Scope) -> Scope:
    """The scope, with `%2F` and `%25` still encoded in its path, and with the path at which it is mounted. Servers
    decode the whole path, and then a name's slash cannot be told from the path's own."""
    path, raw = scope["path"], scope.get("raw_path")
    if "%" not in path and (raw is None or raw.decode("latin-1") == path):
        return scope
    root = scope.get("root_path", "")
    root = root if path.startswith(root) else ""
    parts = path.split("/")[root.count("/") + 1 :]
    if raw is not None:
        asked = [unquote(part) for part in raw.decode("latin-1").split("/")]
        if "/".join(asked) == path:
            parts = asked[root.count("/") + 1 :]
        elif not scope.get("root_path") and (cut := _cut_off(path, asked)) is not None:
            root, parts = cut
            scope = {**scope, "root_path": root}
        # Else the two are not the same path: something on the way has rewritten only one of them.
    return {**scope, "path": "/".join([root, *map(_encoded, parts)])}


def _cut_off(path: str, asked: list[str]) -> tuple[str, list[str]] | None:
    """What a host has cut off the path that was asked for, and the parts of the rest; None if the path is not its end.
    Litestar cuts without saying so in `root_path`, and adds a slash at the end if there is none."""
    whole = "/".join(asked)
    for given in (path, path.removesuffix("/")):
        rest = given if given.startswith("/") or not given else f"/{given}"
        root = whole.removesuffix(rest)
        parts = asked[root.count("/") + 1 :]
        if whole.endswith(rest) and "".join(f"/{part}" for part in parts) == rest:
            return root, parts or [""]
    return None


def _encoded(part: str) -> str:
    return _CHARACTER.sub(lambda found: _KEPT[found[0]], part)
