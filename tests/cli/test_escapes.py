"""Every command that prints stored text prints it with its control characters spelled out."""

import asyncio
import sys
from typing import Any

import pytest

from ficha import Ficha
from tests.cli.running import Run
from tests.test_printed_text import NASTY as UNSTORABLE
from tests.test_printed_text import is_harmless

pytestmark = pytest.mark.long_on("postgresql")

NASTY = UNSTORABLE.replace("\x00", "")
VIEWS = (
    *(("jobs",), ("job", "JOB", "--history"), ("watch", "JOB"), ("dead", "list"), ("ledger", "ana"), ("audit",)),
    *(
        ("account", "show", "ana"),
        ("workers",),
        ("stats",),
        ("stuck",),
        ("tools",),
        ("pools", "list"),
        ("apikey", "list"),
    ),
    *(("reservations",), ("idempotency",), ("batch", "status", "BATCH"), ("cancel", "JOB"), ("dead", "requeue", "JOB")),
    *(("job", NASTY), ("account", "show", NASTY), ("submit", NASTY, "--account", "ana")),
)
"""Every command that prints what is stored, and some that are given what is not."""


async def planted(app: Ficha) -> tuple[str, str]:
    """A job whose every text is nasty, and a batch."""
    async with app:
        await app.open_account("ana", plan="free", credits=100)
        await app.grant("ana", 5, reason=NASTY)
        await app.acting("ana").grant("ana", 1, reason=NASTY)
        receipt = await app.submit("draw", {"prompt": NASTY}, account="ana")
        (lease,) = await app.claim("gpu", worker="w1")
        await app.checkpoint(lease, "HALF", data={NASTY: NASTY})
        await app.report(lease, partial=[NASTY])
        await app.note(lease, NASTY)
        await app.save_step(lease, "first", NASTY)
        await app.fail(lease, NASTY)
        batch = await app.submit_batch([("draw", {"prompt": NASTY})] * 2, account="ana")
        assert batch.batch_id is not None
        return receipt.job_id, batch.batch_id


@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_command_prints_what_is_stored_as_it_is(
    ficha: Run, shop: Any, url: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, batch = asyncio.run(planted(shop()))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: is_terminal)
    spelled = 0
    for view in VIEWS:
        words = [{"JOB": job, "BATCH": batch}.get(word, word) for word in view]
        runs = [words] if is_terminal else [words, [*words, "--json"]]
        for arguments in runs if NASTY not in view else [*runs, ["--debug", *words]]:
            done = ficha(*arguments, expect=None)
            assert is_harmless(done.out + done.err), arguments
            spelled += "\\x1b" in done.out + done.err or "\\u001b" in done.out + done.err
    assert spelled >= 5
