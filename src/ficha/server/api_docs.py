"""The API's documentation as one page of plain HTML, made from the OpenAPI document: no script, nothing from elsewhere.

Whatever the document says is text: it is escaped, and only words between backticks become code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any, Final

import msgspec

from ..core.codes import CODES
from .plain_pages import page
from .problems import MEDIA_TYPE

Json = dict[str, Any]

_CODE: Final = re.compile(r"`([^`\n]+)`")
_FIELD: Final = re.compile(r"((?:`?\w+`?(?:, )?)+): (.*)")
_LIMITS: Final = {
    "minimum": "from {}",
    "exclusiveMinimum": "above {}",
    "maximum": "up to {}",
    "exclusiveMaximum": "below {}",
    "maxLength": "up to {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "like {}",
}
_SCOPES: Final = ("user", "service", "admin", "viewer", "job")
"""In the order in which the page lists them."""


def docs_page(document: Json, root: str = "") -> bytes:
    """The page. `root` is the path that the application is mounted at."""
    groups = _groups(document)
    shapes = document["components"]["schemas"]
    parts = [
        f'<header class="top"><h1>{escape(document["info"]["title"])} API</h1>'
        f'<p class="aside">Version {escape(document["info"]["version"])} · '
        f'<a href="{escape(root)}/api/openapi.json">OpenAPI document</a></p></header>',
        '<div class="columns">',
        _contents(groups),
        "<main>",
        f'<section class="about">{_prose(document["info"]["description"])}</section>',
        *(_group(name, operations, shapes) for name, operations in groups.items()),
        _problems(),
        _shapes(shapes),
        "</main></div>",
    ]
    return page("Ficha API", "\n".join(parts), root)


def _groups(document: Json) -> dict[str, list[tuple[str, str, Json]]]:
    """The operations by their tag, in the order of the document."""
    groups: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return groups


def _contents(groups: dict[str, list[tuple[str, str, Json]]]) -> str:
    def linked(method: str, path: str, operation: Json) -> str:
        words = f"{_method(method)}<span>{escape(operation['summary'])}</span>"
        return f'<li><a href="#{_anchor(method, path)}">{words}</a></li>'

    lists = [
        f'<li><a href="#{_anchor(name)}">{escape(_sentence(name))}</a>'
        f"<ul>{''.join(linked(*operation) for operation in operations)}</ul></li>"
        for name, operations in groups.items()
    ]
    others = '<li><a href="#problems">Problems</a></li><li><a href="#shapes">Shapes</a></li>'
    return f'<nav aria-label="Contents"><ul>{"".join(lists)}{others}</ul></nav>'


def _group(name: str, operations: list[tuple[str, str, Json]], shapes: Json) -> str:
    inner = "\n".join(_operation(*operation, shapes) for operation in operations)
    return f'<section><h2 id="{_anchor(name)}">{escape(_sentence(name))}</h2>\n{inner}</section>'


def _operation(method: str, path: str, operation: Json, shapes: Json) -> str:
    place = "".join(
        f"<var>{escape(part)}</var>" if part.startswith("{") else escape(part) for part in re.split(r"(\{\w+\})", path)
    )
    parts = [
        f'<article id="{_anchor(method, path)}"><h3>{_method(method)}<code class="path">{place}</code></h3>'
        f'<p class="summary">{_line(operation["summary"])}</p>',
        _prose(operation.get("description", "")),
        f'<p class="aside">{_callers(operation)}</p>',
        _parameters(operation.get("parameters", ())),
        _body(operation.get("requestBody"), shapes),
        _answers(operation["responses"]),
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def _callers(operation: Json) -> str:
    scopes = operation.get("x-scopes", ())
    return f"For: {', '.join(scope for scope in _SCOPES if scope in scopes)}." if scopes else "For anybody."


def _parameters(parameters: Iterable[Json]) -> str:
    rows = []
    for one in parameters:
        schema = one["schema"] if one["required"] else {"default": None, **one["schema"]}
        place = {"path": "in the path", "header": "header"}.get(one["in"], "" if one["required"] else "optional")
        what = _line(one.get("description", "")) + _default(schema)
        rows.append((f"<code>{escape(one['name'])}</code>", _type(schema, place), what))
    return _table("Parameters", ("name", "type", "what"), rows)


def _body(body: Json | None, shapes: Json) -> str:
    if body is None:
        return ""
    [name] = [
        content["schema"]["$ref"].rpartition("/")[2] for kind, content in body["content"].items() if "json" in kind
    ]
    kinds = " or ".join(f"<code>{escape(kind)}</code>" for kind in body["content"])
    optional = "" if body["required"] else " It may be left out."
    examples = "".join(f"<pre><code>{_json(example)}</code></pre>" for example in shapes[name].get("examples", ()))
    return f"<h4>Body</h4><p>{_reference(name)} as {kinds}.{optional}</p>{_fields(shapes[name])}{examples}"


def _answers(responses: Json) -> str:
    rows = []
    for status, response in responses.items():
        content = response.get("content", {})
        if MEDIA_TYPE in content:
            codes = (f'<a href="#{escape(code)}"><code>{escape(code)}</code></a>' for code in _codes(response))
            rows.append((escape(status), ", ".join(codes)))
        else:
            shapes = (
                _type(one["schema"]) if kind == "application/json" else f"<code>{escape(kind)}</code>"
                for kind, one in content.items()
            )
            rows.append((escape(status), " or ".join(shapes) or escape(response["description"])))
    return _table("Answers", ("status", "what"), rows)


def _codes(response: Json) -> list[str]:
    told: str = response["description"]
    return told.split(", ")


def _problems() -> str:
    rows = [
        (
            f'<code id="{code}">{code}</code>',
            str(facts.status),
            _line(facts.when),
            "yes" if facts.retryable else "",
        )
        for code, facts in CODES.items()
    ]
    return (
        '<section><h2 id="problems">Problems</h2>'
        f"<p>Every refusal is a {_reference('Problem')} (RFC 9457) with one of these codes. Nothing was changed.</p>"
        f"{_table('', ('code', 'status', 'when', 'try again'), rows)}</section>"
    )


def _shapes(shapes: Json) -> str:
    inner = [
        f'<article id="shape-{escape(name)}"><h3>{escape(_shape_name(name))}</h3>'
        f"{_words(schema)}{_fields(schema)}</article>"
        for name, schema in sorted(shapes.items())
    ]
    return '<section><h2 id="shapes">Shapes</h2>' + "\n".join(inner) + "</section>"


def _words(schema: Json) -> str:
    """The part of a shape's description that is not about one of its fields."""
    return _prose("\n\n".join(_described(schema)[0]))


def _fields(schema: Json) -> str:
    told = _described(schema)[1]
    required = schema.get("required", ())
    properties = sorted(schema.get("properties", {}).items(), key=lambda one: one[0] not in required)
    rows = [
        (
            f"<code>{escape(name)}</code>",
            _type(field, "" if name in required else "optional"),
            _line(_sentence(field.get("description", "") or told.get(name, ""))) + _default(field),
        )
        for name, field in properties
    ]
    return _table("", ("field", "type", "what"), rows)


def _described(schema: Json) -> tuple[list[str], dict[str, str]]:
    """A description's paragraphs, and what it says of single fields, in lines that begin with their names."""
    names = [name for name in schema.get("properties", {}) if name.isidentifier()]
    words: list[str] = []
    fields: dict[str, str] = {}
    for part in schema.get("description", "").split("\n\n"):
        rest = []
        # An indented line continues the one before; a sentence may begin with a field's name, too.
        for line in re.split(rf"\n|(?<=\.) (?=(?:{'|'.join(names)}): )", re.sub(r"\n\s+", " ", part)):
            found = _FIELD.fullmatch(line)
            named = [] if found is None else found[1].replace("`", "").split(", ")
            if found is not None and set(named) <= set(names):
                fields |= dict.fromkeys(named, found[2])
            else:
                rest.append(line)
        if rest:
            words.append("\n".join(rest))
    return words, fields


def _type(schema: Json, note: str = "") -> str:
    """A type in words, with a link to its shape and a note behind it."""
    named, limits = _named_type(schema)
    notes = ", ".join([*limits, *filter(None, [note])])
    return f"{named} <small>{notes}</small>" if notes else named


def _named_type(schema: Json) -> tuple[str, list[str]]:
    """A type's name, and the limits on its values."""
    if "$ref" in schema:
        return _reference(schema["$ref"].rpartition("/")[2]), []
    if "anyOf" in schema:
        # A field that may be left out may be null too; the page does not repeat that.
        kinds = [one for one in schema["anyOf"] if one != {"type": "null"} or "default" not in schema]
        return _named_type(kinds[0]) if len(kinds) == 1 else (" or ".join(dict.fromkeys(map(_type, kinds))), [])
    if "enum" in schema:
        return " or ".join(f"<code>{_json(value)}</code>" for value in schema["enum"]), []
    kind = schema.get("type", "anything")
    if kind == "array" and schema.get("items"):
        named = f"list of {_type(schema['items'])}"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        named = f"object of {_type(schema['additionalProperties'])}"
    else:
        named = escape(str(schema.get("format") or ("list" if kind == "array" else kind)))
    return named, [words.format(escape(str(schema[name]))) for name, words in _LIMITS.items() if name in schema]


def _default(schema: Json) -> str:
    value = schema.get("default")
    return "" if value is None else f" <small>default <code>{_json(value)}</code></small>"


def _reference(name: str) -> str:
    return f'<a href="#shape-{escape(name)}">{escape(_shape_name(name))}</a>'


def _shape_name(name: str) -> str:
    """The name to show: `Page_JobView_` becomes `Page of JobView`."""
    found = re.fullmatch(r"([A-Za-z]+)_(\w+)_", name)
    return name if found is None else f"{found[1]} of {found[2]}"


def _table(title: str, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of cells that are HTML; nothing if there is no row."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    above = f"<h4>{title}</h4>" if title else ""
    return f'{above}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _prose(text: str) -> str:
    return "".join(f"<p>{_line(part)}</p>" for part in text.split("\n\n") if part.strip())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text.strip()))


def _json(value: Any) -> str:
    return escape(msgspec.json.format(msgspec.json.encode(value), indent=2 if isinstance(value, dict) else 0).decode())


def _method(method: str) -> str:
    return f'<b class="method {method.lower()}">{method}</b>'


def _anchor(*parts: str) -> str:
    return "-".join(_words_of(parts))


def _words_of(parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        yield from re.findall(r"[a-z0-9_]+", part.lower())
