"""Jobs that await a provider which signs its call-backs, and those call-backs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from standardwebhooks.webhooks import Webhook

from ficha import Ficha, SubmitRequest
from ficha.providers import ProviderCall, Replicate
from ficha.signing import Signer

from .endurance.application import none_refused
from .peer import Wrong
from .serving import application as served
from .serving.application import LATER
from .serving.wire import request
from .workload import ACCOUNTS, COST, account

DRAW: Final = "draw"
PUBLIC_URL: Final = "https://ficha.example"
OUR_SECRET: Final = "of the benchmark of call-backs, and of nothing else"  # noqa: S105 (its databases end with it)
SIGNING: Final = "whsec_b25seSB0aGUgcHJvdmlkZXIgYW5kIHdlIGtub3cgaXQ="
DAY_S: Final = 86_400.0
CLAIMED: Final = 200


def application(url: str | None = None) -> Ficha:
    """The one whose submits are measured elsewhere, with a tool whose work a provider does."""
    made = served.application(url)
    # The server is started with a secret of its own, which signs no addresses: those are made before.
    made.signer, made.public_url = Signer(OUR_SECRET), PUBLIC_URL

    @made.provider_tool(Replicate("no token", webhook_secret=SIGNING), pool=LATER, cost=COST, timeout=DAY_S)
    async def draw(job: Any, prompt: str) -> ProviderCall:
        return ProviderCall("owner/model", {"prompt": prompt})

    return made


app: Final = application()
"""What the server under measure loads."""


class AwaitingJobs:
    """So many jobs that a provider has accepted, in a database with accounts. Nothing is open here meanwhile."""

    def __init__(self, url: str, jobs: Sequence[str]) -> None:
        self._url = url
        self._jobs = jobs

    @classmethod
    async def made(cls, url: str, count: int) -> AwaitingJobs:
        async with application(url) as behind:
            asked = [SubmitRequest(tool=DRAW, payload={"prompt": "a cat"}, account=account(n)) for n in range(count)]
            receipts = await behind.submit_many(asked)
            none_refused(receipts)
            left = count
            while left and (leases := await behind.claim(LATER, limit=CLAIMED, worker="starter", starts=True)):
                ends = [(lease, behind.accepted(_ref(lease.job_id), poll_s=DAY_S)) for lease in leases]
                none_refused(await behind.end_many(ends))
                left -= len(leases)
        if left:
            raise Wrong(f"{left} of {count} jobs could not be claimed")
        return cls(url, [receipt.job_id for receipt in receipts])

    def callback(self, number: int) -> bytes:
        """The request that says that a job's work succeeded, signed now: a prediction as Replicate sends it."""
        job_id, at = self._jobs[number], datetime.now(UTC)
        ref, name = _ref(job_id), f"msg_{job_id}"
        prediction = {
            "id": ref,
            "model": "owner/model",
            "version": "9f" * 32,
            "input": {"prompt": "a cat"},
            "logs": "28 steps, 6.7 a second\n" * 10,
            "output": [f"https://replicate.delivery/{ref}/out-0.png"],
            "error": None,
            "status": "succeeded",
            **dict.fromkeys(("created_at", "started_at", "completed_at"), at.isoformat()),
            "metrics": {"predict_time": 4.2},
            "urls": {"get": f"https://api.replicate.com/v1/predictions/{ref}"},
        }
        body = json.dumps(prediction)
        signed = Webhook(SIGNING).sign(name, at, body)
        path = (app.callback_url("replicate", job_id, 0) or "").removeprefix(PUBLIC_URL)
        stamp = str(int(at.timestamp()))
        return request(path, None, body.encode(), webhook_id=name, webhook_timestamp=stamp, webhook_signature=signed)

    async def check(self, *, submitted: int, callbacks: int) -> None:
        """Every job has so many call-backs that were believed; all submits are there; every invariant holds."""
        async with application(self._url) as behind:
            for job_id in self._jobs:
                kept = [event.data or {} for event in await behind.events(job=job_id) if event.kind == "callback"]
                found = [(one.get("verdict"), one.get("about")) for one in kept]
                if found != [("verified", _ref(job_id))] * callbacks:
                    raise Wrong(f"job {job_id} has these call-backs: {found}")
            accounts = [await behind.account(account(number)) for number in range(ACCOUNTS)]
            if (jobs := sum(one.submitted for one in accounts)) != len(self._jobs) + submitted:
                raise Wrong(f"{jobs} jobs were submitted instead of {len(self._jobs) + submitted}")
            if problems := await behind.verify():
                raise Wrong(f"{len(problems)} invariants are broken, the first: {problems[0]}")


def _ref(job_id: str) -> str:
    return f"prediction-{job_id}"
