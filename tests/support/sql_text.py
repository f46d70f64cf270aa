"""SQL laid out for people: a clause per line, a query in parentheses indented, long lists wrapped.

Only the space between words is changed, so that the text stays the statement that it was.
"""

from __future__ import annotations

import re
from typing import Final

WIDTH: Final = 120
INDENT: Final = "    "
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\$\d+|::|[<>=!|]+|\w+|[^\s\w]")
_CLAUSES: Final = (
    *(
        "FOR UPDATE",
        "FOR NO KEY UPDATE",
        "WITH",
        "SELECT",
        "INSERT INTO",
        "UPDATE",
        "DELETE FROM",
        "SET",
        "FROM",
        "USING",
        "WHERE",
        "GROUP BY",
        "ORDER BY",
    ),
    *("LIMIT", "OFFSET", "UNION ALL", "UNION", "LEFT JOIN", "CROSS JOIN", "JOIN", "ON CONFLICT", "RETURNING"),
)
_QUERIES: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
_TIGHT_BEFORE: Final = (",", ".", ";", "]", "::", "[")
_TIGHT_AFTER: Final = ("[", ".", "::")

Tree = list["str | Tree"]


def formatted(text: str) -> str:
    tokens = _TOKEN.findall(text)
    return _query(_tree(iter(tokens)), "") + "\n"


def _tree(tokens: object) -> Tree:
    """Words, with what is in parentheses as a list of its own."""
    found: Tree = []
    for word in tokens:  # type: ignore[attr-defined]
        if word == "(":
            found.append(_tree(tokens))
        elif word == ")":
            return found
        else:
            found.append(word)
    return found


def _query(tree: Tree, indent: str) -> str:
    return "\n".join(_clause(clause, indent) for clause in _clauses(tree))


def _clauses(tree: Tree) -> list[Tree]:
    """Cut before each word that begins a clause."""
    clauses: list[Tree] = [[]]
    at = 0
    while at < len(tree):
        keyword = next((words for words in _CLAUSES if _begins(tree[at:], words.split())), None)
        is_inside = keyword in ("FROM", "UPDATE", "SET") and clauses[-1] and clauses[-1][0] in ("DELETE", "ON", "DO")
        if keyword is not None and not is_inside and clauses[-1]:
            clauses.append([])
        for _ in range(len(keyword.split()) if keyword else 1):
            clauses[-1].append(tree[at])
            at += 1
    return clauses


def _begins(tree: Tree, words: list[str]) -> bool:
    return tree[: len(words)] == words


def _clause(clause: Tree, indent: str) -> str:
    line = indent + _inline(clause, indent)
    if len(line.split("\n")[0]) <= WIDTH:
        return line
    return indent + _wrapped(clause, indent, indent + INDENT)


def _wrapped(clause: Tree, indent: str, deeper: str) -> str:
    """What is between the commas, or the ANDs, one after the other, as much in a line as there is room for."""
    parts: list[Tree] = [[]]
    for item in clause:
        if item == "AND" and clause[0] == "WHERE":
            parts.append([])
        parts[-1].append(item)
        if item == ",":
            parts.append([])
    lines = [""]
    for part in parts:
        text = _inline(part, deeper)
        room = WIDTH - len(deeper if len(lines) > 1 else indent)
        if lines[-1] and len(lines[-1].split("\n")[-1]) + 1 + len(text.split("\n")[0]) > room:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + text
    return ("\n" + deeper).join(lines)


def _inline(items: Tree, indent: str) -> str:
    text = ""
    before: str | Tree = "."
    for item in items:
        if isinstance(item, list):
            is_call = isinstance(before, str) and re.fullmatch(r"[a-z]\w*|\$\d+", before) is not None
            text += f"{'' if is_call or before in _TIGHT_AFTER else ' '}{_parenthesised(item, indent)}"
        else:
            text += f"{'' if before in _TIGHT_AFTER or item in _TIGHT_BEFORE else ' '}{item}"
        before = item
    return text


def _parenthesised(tree: Tree, indent: str) -> str:
    short = f"({_inline(tree, indent)})"
    deeper = indent + INDENT
    if tree and tree[0] in _QUERIES:
        is_short = len(short) <= WIDTH * 2 // 3 and "\n" not in short
        return short if is_short else f"(\n{_query(tree, deeper)}\n{indent})"
    if len(indent) + len(short) <= WIDTH or "\n" in short or "," not in tree:
        return short
    return f"(\n{deeper}{_wrapped(tree, deeper, deeper)}\n{indent})"
