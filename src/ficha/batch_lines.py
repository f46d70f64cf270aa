"""Batches as text: lines of JSON or CSV become items, and the results of a batch become lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from .engine.views import JobView

LineFormat = Literal["jsonl", "csv"]
MEDIA_TYPES: Final[dict[str, LineFormat]] = {"application/x-ndjson": "jsonl", "text/csv": "csv"}
Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON Schema of each tool's payload, by the tool's name."""

ONE_TOOL: Final = "name one tool for all lines (--tool, over HTTP ?tool=)"
RESULT_COLUMNS: Final = ("job_id", "tool", "status", "cost", "error", "result", "payload")


class BadLine(ValueError):
    """A line that is no item of a batch; the message says which line, why, and what to write."""


def read_items(
    lines: Iterable[str], form: LineFormat, tool: str | None, schemas: Schemas, parse: Callable[[str], Any]
) -> Iterator[tuple[str, Any]]:
    """The tool and payload of each line; empty lines are skipped.

    tool: the tool of all lines; without it, each line names its own. parse: reads JSON, or raises ValueError.
    """
    return _of_csv(lines, tool, schemas, parse) if form == "csv" else _of_json(lines, tool, parse)


def _of_json(lines: Iterable[str], tool: str | None, parse: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = parse(line)
        except ValueError as error:
            raise BadLine(f"line {number} is not JSON: {error}") from error
        if tool is not None:
            yield tool, item
        elif isinstance(item, dict) and "tool" in item and item.keys() <= {"tool", "payload"}:
            yield item["tool"], item.get("payload", {})
        else:
            raise BadLine(f'line {number} must be {{"tool": …, "payload": {{…}}}}; or {ONE_TOOL}')


def _of_csv(
    lines: Iterable[str], tool: str | None, schemas: Schemas, parse: Callable[[str], Any]
) -> Iterator[tuple[str, Any]]:
    rows = csv.reader(lines, strict=True)
    names: list[str] | None = None
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadLine(f"line {rows.line_num} is not CSV: {error}") from error
        if not any(row):
            continue
        if names is None:
            names = _header(row, tool)
        elif len(row) != len(names):
            raise BadLine(f"line {rows.line_num} has {len(row)} cells, and the first line {len(names)}")
        else:
            cells = dict(zip(names, row, strict=True))
            named = tool if tool is not None else cells.pop("tool")
            schema = schemas.get(named, {})
            yield (
                named,
                {name: _value(name, cell, schema, rows.line_num, parse) for name, cell in cells.items() if cell},
            )


def _header(row: list[str], tool: str | None) -> list[str]:
    names = [name.strip() for name in row]
    if "" in names or len(set(names)) < len(names):
        raise BadLine("the first line names the fields of the payload, each once and none empty")
    if tool is None and "tool" not in names:
        raise BadLine(f"the first line has no column `tool`; add one, or {ONE_TOOL}")
    return names


def _value(name: str, cell: str, schema: Mapping[str, Any], line: int, parse: Callable[[str], Any]) -> Any:
    """A cell, by its field in the payload's schema: text is taken as it is, other types as JSON; an unknown field as
    JSON if it is JSON, else as text."""
    kinds = _kinds(schema.get("properties", {}).get(name, {}), schema.get("$defs", {}))
    if "string" in kinds:
        return cell
    try:
        return parse(cell)
    except ValueError:
        if kinds:
            raise BadLine(
                f"line {line}, column {name}: {cell[:80]!r} is not of the type {' or '.join(sorted(kinds))}"
            ) from None
        return cell


def _kinds(field: Mapping[str, Any], known: Mapping[str, Any]) -> set[str]:
    """The JSON types that a field may have; empty if its schema does not tell."""
    if "$ref" in field:
        return _kinds(known.get(field["$ref"].rpartition("/")[2], {}), {})
    found = field.get("type", ())
    kinds = {found} if isinstance(found, str) else set(found)
    return kinds.union(*(_kinds(one, known) for word in ("anyOf", "oneOf", "allOf") for one in field.get(word, ())))


def header_line(form: LineFormat, *, with_payload: bool) -> str:
    """The line before the first result; empty for JSON lines."""
    return _csv_line(RESULT_COLUMNS if with_payload else RESULT_COLUMNS[:-1]) if form == "csv" else ""


def result_line(job: JobView, form: LineFormat, *, with_payload: bool) -> str:
    """A job of the batch as one line; results and payloads are JSON, also in a cell of CSV."""
    found = {name: getattr(job, "id" if name == "job_id" else name) for name in RESULT_COLUMNS}
    if not with_payload:
        del found["payload"]
    if form == "jsonl":
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n"
    for name in ("result", "payload"):
        if found.get(name) is not None:
            found[name] = json.dumps(found[name], ensure_ascii=False, separators=(",", ":"))
    return _csv_line("" if cell is None else _harmless(str(cell)) for cell in found.values())


def _harmless(cell: str) -> str:
    """Escapes a cell that a spreadsheet would treat as a formula and run."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _csv_line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()
