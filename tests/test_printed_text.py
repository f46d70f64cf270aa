"""Text that others stored, or that was raised, is printed with its control characters spelled out: no line of the
command or of its log moves a terminal's cursor, sets its title, or turns the direction of what follows."""

import io
import json
import logging
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ficha.cli import output
from ficha.cli.logs import LogForm, configure, plain_unconfigured

NASTY = "\x00\x07\x08\x0b\x1b[2J\x1b]0;title\x07\x7f\x85\x9b31m\u200e\u202e\u2066\u2028\u2029\ufeff\U000e0001\r"
"""C0, ESC sequences, DEL, C1, marks of direction, separators of lines, invisible characters."""
nasty = st.text(st.sampled_from([*NASTY, "\n", "\t", "a", "'", '"', "[", "\\", " ", "é"]), max_size=20)


def is_harmless(text: str) -> bool:
    """Whether only a line's end and a tab control anything."""
    return all(c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp") for c in text)


@contextmanager
def screen(*, is_terminal: bool) -> Iterator[Callable[[], str]]:
    """Standard output and error; a terminal without colours, so that each control character would be of the text."""

    class Stream(io.TextIOWrapper):
        def isatty(self) -> bool:
            return is_terminal

    out = Stream(io.BytesIO(), "utf-8", write_through=True)
    with redirect_stdout(out), redirect_stderr(out), pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "dumb")
        patch.setenv("NO_COLOR", "1")
        yield lambda: out.buffer.getvalue().decode()  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_terminal", [True, False])
@given(nasty)
@example(NASTY)
def test_whatever_is_printed_is_spelled_out(is_terminal: bool, text: str) -> None:
    with screen(is_terminal=is_terminal) as shown:
        output.echo(text, text)
        output.note(text)
        output.failure("CODE", text, as_json=False)
        output.failure("CODE", text, as_json=True, more={text: [text]})
        output.data({text: [text]})
        output.result({text: [text]})
        output.text(text)
        output.table(["ID", "STATUS"], [[[text], text], [{text: text}, text]])
        output.details({text: text, "list": [text]})
    assert is_harmless(shown())


@given(nasty)
@example(NASTY)
def test_json_says_the_same_as_before(text: str) -> None:
    assert json.loads(output.json_text({"it": [text], text: 1})) == {"it": [text], text: 1}


@pytest.mark.parametrize("form", [LogForm.text, LogForm.json])
@given(nasty)
@example(NASTY)
def test_whatever_is_logged_is_spelled_out(form: LogForm, text: str) -> None:
    class Odd:
        def __repr__(self) -> str:
            return text

    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        with screen(is_terminal=False) as shown:
            configure(form)
            log = logging.getLogger("ficha.test")
            log.warning(text, extra={f"field{text}": text, "list": [text], "odd": Odd(), "exception": f"a\n{text}"})
            log.warning("%s", text)
            try:
                raise ValueError(text)
            except ValueError:
                log.exception("it failed")
        lines = shown()
    finally:
        root.handlers[:], root.level = before
    assert is_harmless(lines)
    assert "it failed" in lines


def test_a_terminal_gets_the_colours_of_the_log_and_none_of_the_text() -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        with screen(is_terminal=True) as shown:
            configure(LogForm.text)
            logging.getLogger("ficha.test").warning("half \x1b[31mred", extra={"field": "\x1b[31m"})
        lines = shown()
    finally:
        root.handlers[:], root.level = before
    assert "half \\x1b[31mred" in lines
    assert "\x1b[31mred" not in lines
    assert "\x1b[" in lines


def test_a_warning_before_the_log_is_configured_is_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with screen(is_terminal=False) as shown:
        plain_unconfigured()
        logging.getLogger("ficha.test").warning("%s", NASTY)
    assert "\\x1b" in shown()
    assert is_harmless(shown())
