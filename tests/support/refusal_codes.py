"""Which codes a function can refuse with, read off the source: the refusals in it and in all that it calls.

Calls are followed by name. A method of the operations, the queries or a `Call` is followed through its object's usual
name (`self`, `call`, `call.app`, …); what is asked for with `_ask_many` or `call_many` is told in the answer
and refuses nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from ficha.core import commands
from ficha.core.codes import AnyCode, Code, HttpCode
from ficha.core.rules import RULES

SOURCE = Path(__file__).parents[2] / "src" / "ficha"
CODES = frozenset(get_args(Code) + get_args(HttpCode))
METHODS_IN = ("operations", "engine.queries", "server.guard")
"""Where a method that is called on an object may stand."""

TOLD = ("_ask_many", "call_many")
"""What gives refusals as values."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """The functions of one module, and what its other names stand for."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = SOURCE / Path(*name.split("."))
        self.path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        # (What is called on a class is looked up like a module, and is none.)
        tree = ast.parse(self.path.read_text() if self.path.exists() else "")
        self.functions = {node.name: node for node in tree.body if isinstance(node, Function)}
        self.classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        self.methods = {
            name: node
            for kind in tree.body
            if isinstance(kind, ast.ClassDef)
            for node in kind.body
            if isinstance(node, Function)
            for name in (node.name, f"{kind.name}.{node.name}")
        }
        self.imports = dict(self._imports(tree))

    def _imports(self, tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
        """Local names with the package that they come from and their name there."""
        package = self.name.split(".") if self.path.name == "__init__.py" else self.name.split(".")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                above = package[: len(package) - node.level + 1]
                source = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield alias.asname or alias.name, (source, alias.name)


@cache
def module(name: str) -> Module:
    return Module(name)


@cache
def _method_homes() -> dict[str, list[str]]:
    homes: dict[str, list[str]] = {}
    for part in METHODS_IN:
        path = SOURCE / Path(*part.split("."))
        files = path.glob("*.py") if path.is_dir() else [path.with_suffix(".py")]
        for file in files:
            name = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
            for method in module(name.removesuffix(".__init__")).methods:
                homes.setdefault(method, []).append(name)
    return homes


def codes_of(module_name: str, function: str) -> set[AnyCode]:
    """Every code that the function can refuse with."""
    found: set[AnyCode] = set()
    seen: set[tuple[str, str]] = set()
    ahead = [(module_name, function)]
    while ahead:
        place = ahead.pop()
        if place in seen:
            continue
        seen.add(place)
        home = module(place[0])
        node = home.functions.get(place[1]) or home.methods.get(place[1])
        if node is None:
            continue
        parameters = {parameter.arg for parameter in ast.walk(node.args) if isinstance(parameter, ast.arg)}
        for part in _raised(node):
            if isinstance(part, ast.Name) and part.id in parameters:
                continue
            if isinstance(part, ast.Call) and _refusal(part) in CODES:
                found.add(_refusal(part))  # type: ignore[arg-type]
            if isinstance(part, ast.Name | ast.Attribute):
                if (command := _command(home, part)) is not None:
                    found |= set(RULES[command].refuses)
                ahead += _targets(home, part)
    return found


def _raised(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function whose refusals are its own; what its signature says is none of them."""
    parts: list[ast.AST] = list(node.body) if isinstance(node, Function) else [node]
    while parts:
        part = parts.pop()
        yield part
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in TOLD:
            continue
        parts += ast.iter_child_nodes(part)


def _refusal(call: ast.Call) -> str | None:
    """The code that a call of `Refusal` or `EdgeError` gives."""
    name = call.func.id if isinstance(call.func, ast.Name) else None
    first = call.args[0] if call.args else None
    if name in ("Refusal", "EdgeError") and isinstance(first, ast.Constant):
        return str(first.value)
    return None


def _command(home: Module, part: ast.Name | ast.Attribute) -> type[commands.Command] | None:
    if isinstance(part, ast.Name):
        source, name = home.imports.get(part.id, ("", ""))
        is_command = source == "core.commands"
    else:
        name = part.attr
        owner = part.value.id if isinstance(part.value, ast.Name) else ""
        is_command = home.imports.get(owner) == ("core", "commands")
    found = getattr(commands, name, None) if is_command else None
    return found if isinstance(found, type) and found in RULES else None


def _targets(home: Module, part: ast.Name | ast.Attribute) -> Iterator[tuple[str, str]]:
    """The functions that a name stands for."""
    if isinstance(part, ast.Name):
        if part.id in home.functions:
            yield home.name, part.id
        elif part.id in home.imports:
            source, name = home.imports[part.id]
            yield source, f"{name}.__init__" if name in module(source).classes else name
        return
    owner = part.value
    if isinstance(owner, ast.Name) and owner.id in home.imports:
        source, name = home.imports[owner.id]
        yield f"{source}.{name}".lstrip("."), part.attr
    elif _is_known(owner):
        homes = _method_homes().get(part.attr, ())
        # The read side has methods of the same names as the operations, and refuses nothing by itself.
        asks = isinstance(owner, ast.Attribute) and owner.attr == "queries"
        yield from ((place, part.attr) for place in homes if not asks or place == "engine.queries")


def _is_known(owner: ast.expr) -> bool:
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name in ("self", "call", "app", "acting", "doing", "operations", "queries")
