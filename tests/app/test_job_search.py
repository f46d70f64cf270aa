"""The language of job searches: what each text means, and what is said of one that means nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha import Refused
from ficha.ids import first_id_at
from ficha.job_search import JOB_SEARCH_LENGTH, MOST_VALUES, MOST_WORDS, job_match
from ficha.store.base import JobMatch

NOW = 1_794_000_000_000_000
HOUR = 3_600_000_000
A, B = "018f0000-0000-7000-8000-000000000001", "018f0000-0000-7000-8000-000000000002"

MEANINGS = {
    "": JobMatch(),
    "  ": JobMatch(),
    "tool:upscale": JobMatch(tools=("upscale",)),
    "TOOL:upscale,train": JobMatch(tools=("upscale", "train")),
    "tool:a,a": JobMatch(tools=("a",)),
    'tool:"my tool",b': JobMatch(tools=("my tool", "b")),
    'account:"a,b"': JobMatch(accounts=("a,b",)),
    "state:failed,cancelled account:ana": JobMatch(statuses=("failed", "cancelled"), accounts=("ana",)),
    "plan:pro pool:gpu session:s1": JobMatch(plans=("pro",), pools=("gpu",), sessions=("s1",)),
    f"batch:{A.upper()}": JobMatch(batches=(A,)),
    "correlation:req-1": JobMatch(correlation_ids=("req-1",)),
    "correlation:a:b": JobMatch(correlation_ids=("a:b",)),
    f"key:{A},{B.upper()}": JobMatch(keys=(A, B)),
    'error:"timed out"': JobMatch(errors=("timed out",)),
    "a A error:a " * 100: JobMatch(errors=("a",)),
    "error:A error:B": JobMatch(errors=("a", "b")),
    r'error:"a \"b\" \\c"': JobMatch(errors=(r'a "b" \c',)),
    "Timed out": JobMatch(errors=("timed", "out")),
    '"Timed out: 5"': JobMatch(errors=("timed out: 5",)),
    "ÉA": JobMatch(errors=("Éa",)),
    "a,b": JobMatch(errors=("a,b",)),
    A: JobMatch(ids=(A,)),
    f"{A} {B.upper()} {A}": JobMatch(ids=(A, B)),
    f'"{A}"': JobMatch(errors=(A,)),
    "dead:yes stuck:no": JobMatch(is_dead=True, is_stuck=False),
    "since:1h": JobMatch(since_id=first_id_at(NOW - HOUR)),
    "until:2d": JobMatch(until_id=first_id_at(NOW - 48 * HOUR)),
    "since:2026-11-16T10:00": JobMatch(since_id=first_id_at(1_794_823_200_000_000)),
    "since:2026-11-16T10:00Z": JobMatch(since_id=first_id_at(1_794_823_200_000_000)),
    "since:2026-11-16T08:00-02:00": JobMatch(since_id=first_id_at(1_794_823_200_000_000)),
    "until:2026-11-16": JobMatch(until_id=first_id_at(1_794_787_200_000_000)),
    "since:0001-01-01": JobMatch(since_id=first_id_at(0)),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_text_means_these_conditions(text: str) -> None:
    assert job_match(text, NOW) == MEANINGS[text]


MISTAKES = {
    "tool:upscale state:faild": ("\"state:faild\" at 14: 'faild' is no state", 14),
    "  stat:failed": ("\"stat:failed\" at 3: there is no qualifier 'stat', only tool, state, account", 3),
    "http://x": ("quote words that have a colon", 1),
    "tool:": ('"tool:" at 1: a value is missing', 1),
    "tool:a,,b": ("a value is missing", 1),
    'a ""': ("nothing is in the quotes", 3),
    'ok error:"timed out': ("the quote that opens at 10 is not closed", 10),
    'error:"x\\': ("is not closed", 7),
    "tool:a tool:b": ('"tool:b" at 8: tool was given before; separate several values by commas', 8),
    "since:yesterday": ("a time is an age (30s, 5m, 1h, 2d, 1w) or a date", 1),
    "since:1h,2h": ("since takes one value", 1),
    "until:9999-12-31T23:59-12:00x": ("a time is an age", 1),
    "dead:maybe": ("dead is yes or no", 1),
    "batch:7": ("'7' is no id; an id is a UUID", 1),
    "tool:" + "x" * 256: ("a tool has at most 255 characters", 1),
    "tool:" + ",".join(map(str, range(MOST_VALUES + 1))): (f"tool takes at most {MOST_VALUES} values", 1),
    " ".join(f"w{n}" for n in range(MOST_WORDS + 1)): (f"at most {MOST_WORDS} parts of errors", 71),
    " ".join(f"error:{n}" for n in range(MOST_WORDS)) + " x": (f"at most {MOST_WORDS} parts of errors", 171),
    "x" * (JOB_SEARCH_LENGTH + 1): (f"at most {JOB_SEARCH_LENGTH} characters", 1),
    "a\x00": ("NUL", 1),
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:20])
def test_a_mistake_is_told_with_its_position(text: str) -> None:
    words, position = MISTAKES[text]
    with pytest.raises(Refused) as caught:
        job_match(text, NOW)
    assert (caught.value.code, caught.value.details) == ("INVALID_ARGUMENT", {"position": position})
    assert words in caught.value.message


def test_the_most_that_is_taken_is_taken() -> None:
    assert len(job_match("tool:" + ",".join(map(str, range(MOST_VALUES))), NOW).tools) == MOST_VALUES
    assert job_match("x" * JOB_SEARCH_LENGTH, NOW).errors == ("x" * JOB_SEARCH_LENGTH,)
    assert job_match("tool:" + "x" * 255, NOW).tools == ("x" * 255,)


@given(st.text(alphabet='toledsancu:,"\\ 1-é', max_size=40))
def test_any_text_has_a_meaning_or_is_refused(text: str) -> None:
    refused: list[Refused] = []
    try:
        assert isinstance(job_match(text, NOW), JobMatch)
    except Refused as error:
        refused.append(error)
    assert all(1 <= error.details["position"] <= len(text) for error in refused)
