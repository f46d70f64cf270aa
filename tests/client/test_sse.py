"""Server-sent events, however the bytes arrive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.client.sse import Message, Parser

STREAM = (
    ": keep-alive\n\n"
    'id: 7\nevent: log\ndata: {"text":"one\u2028two\x85three\x0bfour"}\n\n'
    "event: position\r\ndata: 1\r\ndata:2\r\n\r\n"
    "data\rid\r\r"
    "event: reconnect\nretry: 1000\n\n"
    "retry: soon\nevent: nothing\n\n"
    "unknown: field\ndata:  ü \n\n"
    "event: cut off\ndata: never told"
).encode()
MESSAGES = [
    Message("log", '{"text":"one\u2028two\x85three\x0bfour"}', "7", None),
    Message("position", "1\n2", None, None),
    Message("message", "", "", None),
    Message("reconnect", "", None, 1_000),
    Message("message", " ü ", None, None),
]


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_a_stream_is_the_same_wherever_it_is_cut(cuts: list[int]) -> None:
    parser = Parser()
    edges = [0, *sorted(cuts), len(STREAM)]
    parts = [STREAM[start:end] for start, end in pairwise(edges)]
    assert [message for part in parts for message in parser.feed(part)] == MESSAGES


@pytest.mark.parametrize("size", [1, 2, 3, 10_000])
def test_a_byte_order_mark_is_no_part_of_it(size: int) -> None:
    stream = b"\xef\xbb\xbfdata: x\n\n"
    parser = Parser()
    parts = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [message.data for part in parts for message in parser.feed(part)] == ["x"]


@given(garbage=st.binary(max_size=300))
def test_nothing_that_arrives_breaks_the_reader(garbage: bytes) -> None:
    parser = Parser()
    for message in parser.feed(garbage):
        assert isinstance(message.data, str)
    assert (
        list(Parser().feed(b"\n" + garbage.replace(b"\n", b"").replace(b"\r", b"") + b"\n\ndata: y\n\n"))[-1].data
        == "y"
    )
