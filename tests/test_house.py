"""Each fact once: no shape is declared twice, no class has another's name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

SOURCE = Path(__file__).parent.parent / "src" / "ficha"


class Declared(Struct, frozen=True):
    """A class as its source declares it."""

    place: str
    name: str
    bases: tuple[str, ...]
    fields: tuple[str, ...]


def declared() -> Iterator[Declared]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield Declared(
                    str(path.relative_to(SOURCE)),
                    node.name,
                    tuple(_name(base) for base in node.bases),
                    tuple(part.target.id for part in node.body if _is_field(part)),  # type: ignore[attr-defined]
                )


def _name(base: ast.expr) -> str:
    """A base class by its own name, whatever its module and its parameters."""
    while isinstance(base, ast.Subscript):
        base = base.value
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def _is_field(part: ast.stmt) -> bool:
    return isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and "ClassVar" not in ast.dump(part)


CLASSES = list(declared())
BY_NAME = {kind.name: kind for kind in CLASSES}


def is_struct(name: str) -> bool:
    return name == "Struct" or (name in BY_NAME and any(map(is_struct, BY_NAME[name].bases)))


def fields(kind: Declared) -> frozenset[str]:
    """Its own fields and those of its bases."""
    return frozenset(kind.fields).union(*(fields(BY_NAME[base]) for base in kind.bases if base in BY_NAME))


YET = {"Heartbeat", "Start", "Consume", "DeclarePool", "ListEntries", "ListApiKeys"}
"""Commands and questions that still share their fields with another."""


def test_no_two_structs_have_the_same_fields() -> None:
    """A struct of one field or none is a name with a value: what it means is in its class, as with commands."""
    shapes = defaultdict(list)
    for kind in CLASSES:
        if any(map(is_struct, kind.bases)) and len(fields(kind)) > 1 and kind.name not in YET:
            shapes[fields(kind)].append(f"{kind.place}: {kind.name}")
    assert len(shapes) > 100
    assert [twins for twins in shapes.values() if len(twins) > 1] == []
