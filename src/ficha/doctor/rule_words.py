"""A constraint or index as a text that stays the same however it is written, so that the one in a migration can be
compared with the one that a database shows.

PostgreSQL shows a constraint as it understood it: with parentheses, types, and other words for the same. What remains
here are the names, values and comparisons, in order.
"""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"'(?:[^']|'')*'|[\w.]+|<>|>=|<=|[=<>+*/-]")
_TYPE: Final = re.compile(r"::[a-z_]+(?: varying| precision)?(?:\[\])?")
_SAID_OTHERWISE: Final = (
    (re.compile(r"\bNOT IN\b"), "<>"),
    (re.compile(r"(=|<>) (?:ANY|ALL)\b"), r"\1"),
    (re.compile(r"\bIN\b"), "="),
    (re.compile(r"\b(?:CHECK|ARRAY|VARIADIC|USING btree|COLLATE)\b"), " "),
)


def rule_words(text: str) -> str:
    """The words of a rule, with single spaces."""
    text = _TYPE.sub("", text)
    for form, word in _SAID_OTHERWISE:
        text = form.sub(word, text)
    return " ".join(word if word[0] == "'" else word.lower() for word in _WORD.findall(text))


def in_parentheses(text: str, start: int) -> str:
    """What stands in the parentheses that open at or after `start`, with parentheses inside them."""
    first = text.index("(", start)
    depth = 0
    for place in range(first, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return text[first + 1 : place]
    return text[first + 1 :]


def checks_in(text: str) -> list[str]:
    """The checks of a table's or column's text, as it is written in a migration."""
    return [in_parentheses(text, found.end()) for found in re.finditer(r"\bCHECK\s*(?=\()", text)]
