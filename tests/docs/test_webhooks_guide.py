"""The guide to webhooks: the receiver that it shows takes what Ficha sends, and nothing else."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ficha.core.webhooks import EVENTS, PAUSES_S, TEST
from ficha.operations.webhooks import _new_secret
from ficha.worker import delivery_runner
from ficha.worker.delivery_runner import signature_headers

TEXT = (Path(__file__).parents[2] / "docs/webhooks.md").read_text()
BODY = '{"type": "job.completed"}'


def test_the_receiver_takes_what_is_signed_and_nothing_else() -> None:
    secret = _new_secret()
    [example] = [code for code in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "def receive" in code]
    seen: set[str] = set()
    program: dict[str, Any] = {"already_seen": lambda one: one in seen or seen.add(one)}
    exec(example.replace("whsec_…", secret), program)  # noqa: S102 (it is the documentation's own)
    receive, now = program["receive"], datetime.now(UTC)
    headers = dict(signature_headers([_new_secret(), secret], "m1", now, BODY))
    assert [receive(BODY.encode(), headers) for _ in range(2)] == [204, 204]
    assert seen == {"m1"}
    assert receive(BODY.encode() + b" ", headers) == 401
    assert receive(BODY.encode(), {**headers, "webhook-id": "m2"}) == 401
    assert receive(BODY.encode(), {**headers, "webhook-signature": "nonsense"}) == 401
    assert receive(BODY.encode(), dict(signature_headers([secret], "m1", now - timedelta(minutes=6), BODY))) == 401
    assert receive(BODY.encode(), dict(signature_headers([_new_secret()], "m1", now, BODY))) == 401


def test_every_event_pause_and_bound_is_told() -> None:
    assert all(f"`{event}`" in TEXT for event in (*EVENTS, TEST))
    assert (5, 300, 1_800, *(hours * 3_600 for hours in (2, 5, 10, 14, 20, 24))) == PAUSES_S
    assert re.search(r"after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and\s24 h", TEXT)
    words = f"sends {delivery_runner.AT_ONCE} messages at a time: {delivery_runner.ENDPOINT_AT_ONCE} to one endpoint, "
    words += f"{delivery_runner.ACCOUNT_AT_ONCE} to the endpoints of one account and {delivery_runner.OPERATOR_AT_ONCE}"
    assert words in " ".join(TEXT.split())
