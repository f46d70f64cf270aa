"""How the command speaks: JSON, pipes, terminals, pages, errors and help."""

import gzip
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from ficha import Ficha, SubmitRequest
from ficha.cli.output import duration
from tests.cli.conftest import FICHA
from tests.cli.running import Run
from tests.cli.terminals import terminal

Shop = Callable[[], Ficha]


@pytest.fixture
async def full(shop: Shop, folder: Path) -> list[str]:
    """The ids of 2,500 jobs, newest first: more than a page holds."""
    async with shop() as app:
        await app.open_account("ana", credits=10_000)
        requests = [SubmitRequest(tool="images", account="ana", session=str(number)) for number in range(2_500)]
        receipts = await app.submit_many(requests)
    return sorted((receipt.job_id for receipt in receipts), reverse=True)


def test_a_list_goes_on_by_itself_up_to_its_limit(ficha: Run, full: list[str]) -> None:
    assert [job["id"] for job in ficha("jobs", "--json", "--limit", "9999").items] == full
    assert [row[0] for row in ficha("jobs", "--limit", "2000").rows] == full[:2000]
    first = ficha("jobs")
    assert [row[0] for row in first.rows] == full[:50]
    assert first.err == f"there may be more: --after {full[49]}\n"
    assert [row[0] for row in ficha("jobs", "--after", full[49], "--limit", "2").rows] == full[50:52]
    assert [row[0] for row in ficha("ledger", "ana", "--limit", "2", "--after", "2500").rows] == ["2499", "2498"]
    assert len(ficha("jobs", "--session", "7").rows) == len(ficha("jobs", "--tool", "images", "--limit", "1").rows) == 1
    assert ficha("jobs", "--tool", "draw").err == "no jobs\n"
    assert ficha("jobs", "--status", "failed", "--status", "running", "--json").out == ""


def test_a_reader_that_goes_away_ends_it_quietly(full: list[str], folder: Path) -> None:
    for arguments in (("jobs", "--limit", "9999"), ("jobs", "--limit", "9999", "--json")):
        with subprocess.Popen([FICHA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as run:
            assert run.stdout is not None
            assert run.stderr is not None
            assert run.stdout.readline().decode().find(full[0]) >= 0
            run.stdout.close()
            assert run.stderr.read() == b""


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local time is fourteen hours ahead of UTC."""
    with monkeypatch.context() as place:
        place.setenv("TZ", "<+14>-14")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_away")
def test_a_terminal_gets_a_table_in_local_time(ficha: Run, shop: Shop, folder: Path) -> None:
    ficha("account", "create", "ana", "--credits", "10")
    job_id = ficha("submit", "draw", "--account", "ana", "--field", "prompt=[red]cat").out.strip()
    job = ficha("job", job_id, "--json").data
    assert job["payload"] == {"prompt": "[red]cat"}
    assert job["created_at"].endswith("Z")
    created = datetime.fromisoformat(job["created_at"])
    piped = ficha("jobs").rows[0][5]
    assert piped.endswith("+14:00")
    assert datetime.fromisoformat(piped) == created.replace(microsecond=0)
    with terminal("jobs", cwd=folder) as screen:
        assert screen.end() == 0
    titles, line = screen.shown.splitlines()
    assert titles.split() == ["ID", "STATUS", "TOOL", "ACCOUNT", "COST", "CREATED", "NOW"]
    assert line.split()[:5] == [job_id, "queued", "draw", "ana", "5"]
    assert "\x1b[33mqueued" in screen.raw
    # Today's times are short; at midnight today may just have become yesterday.
    assert piped[11:19] in line or f"{piped[:10]} {piped[11:16]}" in line


def test_everything_shown_of_one_thing_is_in_a_pipe_too(ficha: Run, shop: Shop) -> None:
    ficha("account", "create", "ana", "--credits", "10")
    job_id = ficha("submit", "draw", "--account", "ana", "--field", "prompt=a\tb\nc").out.strip()
    shown = dict(ficha("job", job_id).rows)
    assert shown["id"] == job_id
    assert shown["payload"] == r'{"prompt":"a\tb\nc"}'
    assert shown["is_dead_letter"] == "no"
    assert "error" not in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument 'TOOL'"),
        (("draw",), "Missing option '--account'"),
        (("draw", "{", "--account", "ana"), "the payload is not JSON: Expecting property name enclosed in double"),
        (("draw", '{"a": 1 "b"}', "--account", "ana"), "(line 1, column 9, before '\"b\"}')"),
        (("draw", "", "--account", "ana"), "the payload is not JSON: Expecting value (line 1, column 1, at the end)"),
        (("draw", "[1]", "--account", "ana"), "the payload must be a JSON object"),
        (("draw", "@nowhere.json", "--account", "ana"), "nowhere.json cannot be read: No such file or directory"),
        (("draw", "@.", "--account", "ana"), ". cannot be read: Is a directory"),
        (("draw", "@latin1.json", "--account", "ana"), "is not UTF-8 (byte 6)"),
        (("draw", "@deep.json", "--account", "ana"), "nested too deep"),
        (("draw", "@second.json", "--account", "ana"), "(line 2, column 1, before 'oops}')"),
        (("draw", "--field", "prompt", "--account", "ana"), "write --field name=value, not 'prompt'"),
        (("draw", "--field", "=1", "--account", "ana"), "write --field name=value, not '=1'"),
        (("draw", "--delay", "soon", "--account", "ana"), "--delay"),
        (("draw", "{}", "more", "--account", "ana"), "unexpected extra argument"),
        (("draw", "--colour", "--account", "ana"), "No such option: --colour"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_submit_that_makes_no_sense_is_wrong_use(
    ficha: Run, shop: Shop, folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    (folder / "latin1.json").write_bytes('{"a":"ç"}'.encode("latin-1"))
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "second.json").write_text('{"a":\noops}')
    refused = ficha("submit", *arguments, expect=2)
    assert refused.out == ""
    assert words in refused.err
    assert refused.err.startswith("error: ")
    assert refused.err.endswith("; see `ficha submit --help`\n")
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("submit", "draw", "--account", "ana", "--field", "prompt=7"), "INVALID_PAYLOAD"),
        (("submit", "draw", "--account", "ana", "--field", "prompt=x", "--field", "sise=2"), "INVALID_PAYLOAD"),
        (("submit", "draw", '{"prompt": NaN}', "--account", "ana"), "INVALID_PAYLOAD"),
        (("submit", "paint", "--account", "ana"), "UNKNOWN_TOOL"),
        (("submit", "draw", "--account", "nobody", "--field", "prompt=x"), "NOT_FOUND"),
        (("submit", "draw", "--account", "", "--field", "prompt=x"), "INVALID_ARGUMENT"),
        (("submit", "draw", "--account", "ana", "--field", "prompt=x", "--key", "a b"), "INVALID_ARGUMENT"),
        (("submit", "draw", "--account", "ana", "--field", "prompt=x", "--delay", "-1"), "INVALID_ARGUMENT"),
        (("submit", "draw", "--account", "ana", "--field", "prompt=x", "--delay", "nan"), "INVALID_ARGUMENT"),
        (("submit", "draw", "--account", "ana", "--field", "prompt=x", "--reservation", "r"), "NOT_FOUND"),
        (("job", "x"), "NOT_FOUND"),
        (("cancel", "x"), "NOT_FOUND"),
        (("recover", "x"), "NOT_FOUND"),
        (("jobs", "--after", "x"), "NOT_FOUND"),
        (("ledger", "nobody"), "NOT_FOUND"),
        (("ledger", "ana", "--after", "x"), "INVALID_ARGUMENT"),
        (("account", "show", "nobody"), "NOT_FOUND"),
        (("account", "create", "ana"), "INVALID_STATE"),
        (("account", "create", "x\ny"), "INVALID_ARGUMENT"),
        (("account", "create", "bob", "--credits", "-1"), "INVALID_ARGUMENT"),
        (("account", "grant", "ana", "0"), "INVALID_ARGUMENT"),
        (("account", "grant", "ana", str(2**80)), "INVALID_ARGUMENT"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_a_refusal_has_its_code_and_changes_nothing(
    ficha: Run, shop: Shop, arguments: tuple[str, ...], code: str
) -> None:
    ficha("account", "create", "ana", "--credits", "10")
    told = ficha(*arguments, "--json", expect=1)
    assert (told.out, told.error["code"], told.error["retryable"]) == ("", code, False)
    words = ficha(*arguments, expect=1)
    assert (words.out, words.err) == ("", f"error: {told.error['message']} [{code}]\n")
    assert [row[:3] for row in ficha("account", "list").rows] == [["ana", "free", "10"]]
    assert ficha("jobs").err == "no jobs\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2 is not JSON"),
        ('"draw"', 'line 2 must be {"tool": …, "payload": {…}}; or name one tool for all lines (--tool, over'),
        ('{"payload": {}}', "line 2 must be"),
        ('{"tool": "draw", "prompt": "x"}', "line 2 must be"),
    ],
)
def test_a_batch_says_which_line_is_wrong(ficha: Run, shop: Shop, folder: Path, line: str, words: str) -> None:
    (folder / "jobs.jsonl").write_text(f'{{"tool": "images"}}\n{line}\n')
    assert words in ficha("batch", "submit", "jobs.jsonl", "--account", "ana", expect=2).err


def test_a_file_of_a_batch_that_is_cut_off_or_no_text_is_named_with_what_is_wrong(
    ficha: Run, shop: Shop, folder: Path
) -> None:
    whole = gzip.compress(b'{"tool": "images"}\n' * 100)
    for name, content, words in (
        ("cut.jsonl.gz", whole[:-20], "cut.jsonl.gz is not a whole gzip file: Compressed file ended"),
        ("bad.jsonl.gz", whole[:20] + b"x" * 20, "bad.jsonl.gz is not a whole gzip file: Error -3"),
        ("no.jsonl.gz", b"no gzip", "no.jsonl.gz is not a whole gzip file: Not a gzipped file"),
        ("latin.jsonl", b'{"tool": "images"}\n\xe9\n', "line 2 is not UTF-8 (byte 0); save it as UTF-8"),
        ("latin.csv", b"tool,prompt\ndraw,\xe9\n", "line 2 is not UTF-8 (byte 5); save it as UTF-8"),
        ("no.csv", b"prompt\nx\n", "has no column `tool`; add one, or name one tool for all lines (--tool, over HTTP"),
    ):
        (folder / name).write_bytes(content)
        assert words in ficha("batch", "submit", name, "--account", "ana", expect=2).err
    missing = ficha("batch", "submit", "none.csv", "--account", "ana", expect=2).err
    assert "none.csv cannot be read: No such file" in missing
    assert ficha("jobs").err == "no jobs\n"


def test_an_unexpected_error_is_a_line_too_unless_more_is_asked_for(
    ficha: Run, shop: Shop, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "ficha.db").write_bytes(b"no database at all, whatever its name says" * 100)
    broken = ficha("jobs", expect=1)
    assert broken.err.startswith("error: ")
    assert len(broken.err.splitlines()) == 1
    for arguments, setting in ((("--debug", "jobs"), ""), (("jobs",), "1")):
        shown = subprocess.run(
            [FICHA, *arguments], capture_output=True, text=True, env=os.environ | {"FICHA_DEBUG": setting}, check=False
        )
        assert (shown.returncode, "Traceback" in shown.stderr) == (1, True)


def test_the_help_is_in_order_and_every_verb_has_a_sentence(ficha: Run) -> None:
    shown = ficha("--help").out
    panels = ["Jobs", "Accounts and credits", "Operating", "Database"]
    places = [shown.index(f" {panel} ") for panel in panels]
    assert places == sorted(places)
    assert ficha(expect=2).out.strip() == shown.strip(), "no arguments show the help"
    assert "requeue" in ficha("dead", expect=2).out
    assert ficha("--version").out.startswith("ficha 0.")
    assert "No such command 'job s'" in ficha("job s", expect=2).err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("ficha acc", ["account"]),
        ("ficha dead re", ["requeue"]),
        ("ficha submit ", ["broken", "draw", "images"]),
        ("ficha jobs --status c", ["completed", "cancelled"]),
        ("ficha jobs --tool b", ["broken"]),
    ],
)
def test_a_shell_is_told_what_could_follow(
    ficha: Run, shop: Shop, monkeypatch: pytest.MonkeyPatch, typed: str, offered: list[str]
) -> None:
    monkeypatch.setenv("_FICHA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" ")) - 1))
    assert ficha().out.split() == offered


def test_the_shell_that_asks_is_shown_its_completion() -> None:
    # The command looks for a shell among its ancestors, and those of the tests may have none.
    asked = ["bash", "-c", f"'{FICHA}' --show-completion; exit $?"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert "_FICHA_COMPLETE=complete_bash" in shown.stdout


def test_completion_is_quiet_where_there_is_no_application(ficha: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_FICHA_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "ficha submit ")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert (ficha().out.strip(), ficha().err) == ("", "")


def test_lengths_of_time_are_told_as_people_tell_them() -> None:
    assert [duration(seconds) for seconds in (-1, 0.4, 89, 600, 7_200, 86_400)] == [
        "0 s", "0 s", "89 s", "10 min", "2 h", "24 h",
    ]  # fmt: skip
