"""Each fact once, and one word per thing: no shape is declared twice, no class or module has another's name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from msgspec import Struct

from ficha.job_log import LOGGERS
from ficha.job_log import SHARED as SHARED_LOGGERS

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


@cache
def classes() -> dict[str, list[Declared]]:
    """All that the source declares, by name. Read only where it is used: every process of a run collects every test."""
    found = defaultdict(list)
    for kind in declared():
        found[kind.name].append(kind)
    return dict(found)


def bases(kind: Declared) -> list[Declared]:
    return [classes()[name][-1] for name in kind.bases if name in classes()]


def is_struct(kind: Declared) -> bool:
    return "Struct" in kind.bases or any(map(is_struct, bases(kind)))


def fields(kind: Declared) -> frozenset[str]:
    """Its own fields and those of its bases."""
    return frozenset(kind.fields).union(*map(fields, bases(kind)))


def test_no_two_structs_have_the_same_fields() -> None:
    """A struct of one field or none is a name with a value: what it means is in its class, as with commands."""
    shapes = defaultdict(list)
    for kind in chain.from_iterable(classes().values()):
        if is_struct(kind) and len(fields(kind)) > 1:
            shapes[fields(kind)].append(f"{kind.place}: {kind.name}")
    assert len(shapes) > 100
    assert [twins for twins in shapes.values() if len(twins) > 1] == []


def test_no_class_has_the_name_of_another() -> None:
    places = {name: [kind.place for kind in found] for name, found in classes().items()}
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


NOUNS = {
    *(
        "accounts",
        "admin",
        "api_keys",
        "audit",
        "batches",
        "brakes",
        "bulk_acts",
        "configuration",
        "dead",
        "figures",
        "files",
        "hooks",
        "jobs",
    ),
    *("leases", "library", "pools", "providers", "reservations", "retention", "schedules", "searches"),
    *("sessions", "split_requests", "submits", "suspects", "tools", "turns", "webhooks", "workers"),
}
"""What the product is about: every room that deals with one has a file for it."""
SHARED = {
    "base": "what everything else of a room stands on",
    "errors": "the exceptions of a room that has its own",
    "problems": "RFC 9457, which the server writes and the client reads",
    "settings": "the server's, and those of them that identity reads",
}


def test_no_module_has_the_name_of_another_without_a_reason() -> None:
    """The stores are built alike. A file of the command line is named after its command, and one of the conformance
    suite after what it checks."""
    rooms = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        room = path.parent.relative_to(SOURCE)
        if path.stem.startswith("__") or room.parts[:1] == ("cli",) or "conformance" in room.parts:
            continue
        rooms[path.stem].add("store" if room.parts[:1] == ("store",) and len(room.parts) > 1 else str(room))
    shared = {name: found for name, found in rooms.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if name not in NOUNS | set(SHARED)} == {}
    assert set(SHARED) <= set(shared), "the list names what is no longer shared"


ROOM_SIZES = {
    "store/postgres": 2_040,
    "store/sqlite": 1_650,
    "store/sql": 700,
    "store/questions": 1_050,
}
"""Lines of Python that one person reads in a sitting; a room inside another counts for itself. (The optimistic layer,
which can be taken away, has its own test.)"""


def test_a_room_of_the_store_can_be_read_in_one_sitting() -> None:
    for room, most in ROOM_SIZES.items():
        lines = sum(len(path.read_text().splitlines()) for path in (SOURCE / room).glob("*.py"))
        assert 0 < lines <= most, f"{room} has {lines} lines; at most {most} are allowed"


def test_every_logger_says_whether_its_lines_may_be_about_a_job() -> None:
    """A logger that is in neither list would log lines about jobs without their fields."""
    named = {
        node.args[0].value
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "getLogger"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and str(node.args[0].value).startswith("ficha")
    }
    assert named == {*LOGGERS, *SHARED_LOGGERS}
