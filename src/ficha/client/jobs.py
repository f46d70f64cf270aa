"""Jobs: submit, look, watch, cancel; and reservations, which hold a quota slot before the job exists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, structs

from .. import validation as arg
from ..core.outcomes import Finished, Rate, Refusal
from ..core.records import Status
from ..core.states import FINAL
from ..engine.views import EventView, Hold, JobView, Page, Quote, Receipt, instant
from ..ids import new_id
from .effects import READ_S, Flow, Stream
from .operation import iteration, operation
from .requests import RequestMethods, date, json, posted
from .watching import Events, Happening, JobWatch

OWN_KEY_HOURS: Final = 1.0
"""A key that the client makes by itself is only good for its own tries, and long enough for them."""
LONGEST_WAIT_S: Final = 30.0
"""As long as a server lets a submit wait for the job's end."""


class JobToken(Struct, frozen=True):
    """A token that is good for one job and a short while: for a browser."""

    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"JobToken(expires_at={self.expires_at!r})"


class Tool(Struct, frozen=True, kw_only=True):
    """A kind of job, as a server sells it. `price` is None where it depends on the payload."""

    name: str
    description: str | None = None
    pool: str
    schema: dict[str, Any]
    price: int | None
    timeout_s: float
    max_wait_s: float | None = None
    attempts: int
    max_items: int | None
    dedupe: bool


class _Tools(Struct):
    items: list[Tool]


class _Active(Struct):
    job: JobView | None


class _Waited(Struct):
    job_id: str
    job: JobView | None = None


class _Quoted(Struct, kw_only=True):
    """A quote as it is sent; why it would be refused comes as a problem's words."""

    admitted: bool
    cost: int
    jobs: int
    priority: int | None
    position: int | None
    estimated_wait_s: float | None
    balance: int
    new_balance: int | None
    quota_warnings: tuple[str, ...]
    cost_limit_warning: str | None
    code: str | None
    detail: str | None


class _Ended(Struct, kw_only=True):
    """A finish as it is sent: with a date."""

    job_id: str
    status: Status
    changed: bool
    refunded: int
    new_balance: int | None
    due_at: datetime | None


class JobMethods(RequestMethods):
    @operation
    def submit(
        self,
        tool: str,
        payload: Mapping[str, Any] | None = None,
        *,
        account: str | None = None,
        idempotency_key: str | None = None,
        key_ttl_hours: float | None = None,
        reservation: str | None = None,
        session: str | None = None,
        batch: str | None = None,
        run_at: datetime | None = None,
        delay_s: float = 0.0,
        correlation_id: str | None = None,
    ) -> Flow[Receipt]:
        """Creates and charges a job (or, where the tool splits large requests, a batch of them).

        However often it is tried, there is one job: without a key, the client makes one for all its tries.
        """
        body = self.keyed(
            tool=tool,
            payload=json(payload),
            account=account,
            idempotency_key=idempotency_key,
            key_ttl_hours=key_ttl_hours,
            reservation=reservation,
            session=session,
            batch=batch,
            run_at=date(run_at),
            delay_s=delay_s,
            correlation_id=correlation_id,
        )
        return self.submitted("/api/jobs", body)

    def keyed(self, **body: Any) -> dict[str, Any]:
        """The body of a submit. It always has a key, so that it can be sent again."""
        if body["idempotency_key"] is None:
            body["idempotency_key"] = new_id()
            body["key_ttl_hours"] = body["key_ttl_hours"] or max(OWN_KEY_HOURS, self.retries.give_up_s / 1_800)
        return body

    def submitted(self, path: str, body: dict[str, Any]) -> Flow[Receipt]:
        """Sends a submit, which has a key and so may be sent again."""
        answer = yield from self.ask(posted(path, body, harmless=True))
        return self.fit({**self.read(answer.body, dict), "rate": _rate(answer.headers)}, Receipt)

    @operation
    def submit_and_wait(
        self,
        tool: str,
        payload: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        account: str | None = None,
        idempotency_key: str | None = None,
        key_ttl_hours: float | None = None,
        reservation: str | None = None,
        session: str | None = None,
        batch: str | None = None,
        correlation_id: str | None = None,
    ) -> Flow[JobView]:
        """Submits a job and waits for its end, which for a short one is a single request; `TimeoutError` if it has not
        ended in time. Of a request that was split it is the first job."""
        body = self.keyed(
            tool=tool,
            payload=json(payload),
            account=account,
            idempotency_key=idempotency_key,
            key_ttl_hours=key_ttl_hours,
            reservation=reservation,
            session=session,
            batch=batch,
            correlation_id=correlation_id,
        )
        began_at = self.clock()
        wait_s = LONGEST_WAIT_S if timeout_s is None else min(timeout_s, LONGEST_WAIT_S)
        request = posted("/api/jobs", body, harmless=True, headers={"Prefer": f"wait={int(wait_s)}"})
        answer = yield from self.ask(structs.replace(request, read_s=READ_S + wait_s))
        waited = self.read(answer.body, _Waited)
        if waited.job is not None and waited.job.status in FINAL:
            return waited.job
        ends_at = float("inf") if timeout_s is None else began_at + timeout_s
        return (yield from JobWatch(self, waited.job_id, 0, ends_at).end())

    @operation
    def quote(
        self,
        tool: str,
        payload: Mapping[str, Any] | None = None,
        *,
        account: str | None = None,
        reservation: str | None = None,
        session: str | None = None,
        run_at: datetime | None = None,
        delay_s: float = 0.0,
        batch: str | None = None,
    ) -> Flow[Quote]:
        """What a submit would cost, whether it would be admitted, and where it would stand. Changes nothing."""
        body = {
            "tool": tool,
            "payload": json(payload),
            "account": account,
            "reservation": reservation,
            "session": session,
            "run_at": date(run_at),
            "delay_s": delay_s,
            "batch": batch,
        }
        found = structs.asdict((yield from self.post("/api/quote", _Quoted, body, harmless=True)))
        code, detail = found.pop("code"), found.pop("detail")
        return Quote(**found, refusal=None if code is None else Refusal(code, detail))

    @operation
    def wait(self, job_id: str, timeout_s: float | None = None) -> Flow[JobView]:
        """Waits for a job's end and returns it; `TimeoutError` if it has not ended in time."""
        ends_at = float("inf") if timeout_s is None else self.clock() + timeout_s
        return JobWatch(self, arg.job_id(job_id), 0, ends_at).end()

    @iteration
    def watch(self, job_id: str, *, after: int = 0) -> Stream[Happening]:
        """All that happens to a job until it has ended: its events after the number `after`, each once and in order;
        its place in the queue whenever that changes; and the job itself, first as it stands and at last as it ended.

        Live, or by asking again and again where nothing live can be had; that is the same, a little later.
        """
        return JobWatch(self, arg.job_id(job_id), after).stream()

    @operation
    def job(self, job_id: str) -> Flow[JobView]:
        """A job as it stands now, with its position while it waits."""
        return self.get(f"/api/jobs/{arg.job_id(job_id)}", JobView)

    @operation
    def jobs(
        self,
        *,
        account: str | None = None,
        statuses: Iterable[Status] = (),
        tool: str | None = None,
        pool: str | None = None,
        batch: str | None = None,
        session: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Flow[Page[JobView]]:
        """A page of jobs, newest first; `after` is the `next` of the page before."""
        return self.get(
            "/api/jobs",
            Page[JobView],
            account=account,
            status=list(statuses),
            tool=tool,
            pool=pool,
            batch=batch,
            session=session,
            cursor=after,
            limit=limit,
        )

    @operation
    def active_job(self, *, account: str | None = None) -> Flow[JobView | None]:
        """The account's job that has not ended, the one submitted last; None if there is none."""
        return (yield from self.get("/api/jobs/active", _Active, account=account)).job

    @operation
    def events(
        self, *, job: str | None = None, account: str | None = None, after: int = 0, limit: int = 100
    ) -> Flow[list[EventView]]:
        """The history of a job or of all jobs of an account, oldest first, after the event number `after`."""
        path = "/api/account/events" if job is None else f"/api/jobs/{arg.job_id(job)}/events"
        whose = account if job is None else None
        return (yield from self.get(path, Events, account=whose, after=after, limit=limit)).items

    @operation
    def cancel(self, job_id: str, *, reason: str | None = None) -> Flow[Finished]:
        """Cancels an active job and refunds it. An ended job stays as it is."""
        path = f"/api/jobs/{arg.job_id(job_id)}/cancel"
        ended = yield from self.post(path, _Ended, {"reason": reason}, harmless=True)
        return Finished(
            job_id=ended.job_id,
            status=ended.status,
            changed=ended.changed,
            refunded=ended.refunded,
            new_balance=ended.new_balance,
            due_at=None if ended.due_at is None else instant(ended.due_at),
        )

    @operation
    def job_token(self, job_id: str, *, ttl_s: float | None = None) -> Flow[JobToken]:
        """A token with which a browser can look at, follow and cancel this one job for a while."""
        return self.post(f"/api/jobs/{arg.job_id(job_id)}/token", JobToken, {"ttl_s": ttl_s}, harmless=True)

    @operation
    def tools(self) -> Flow[list[Tool]]:
        """What can be submitted, by name, with the schema of each payload."""
        return (yield from self.get("/api/tools", _Tools)).items

    @operation
    def reserve(self, account: str | None = None, *, ttl_s: float | None = None) -> Flow[Hold]:
        """Holds one slot of the account's quota for a while, before the job exists."""
        return self.post("/api/reservations", Hold, {"account": account, "ttl_s": ttl_s})

    @operation
    def consume(self, reservation: str) -> Flow[Hold]:
        """Says that the job exists. A submit that names the reservation does this by itself."""
        return self.post(f"/api/reservations/{arg.job_id(reservation, 'reservation')}/consume", Hold)

    @operation
    def release(self, reservation: str) -> Flow[Hold]:
        """Frees the slot at once."""
        path = f"/api/reservations/{arg.job_id(reservation, 'reservation')}/release"
        return self.post(path, Hold, harmless=True)

    @operation
    def reservations(
        self, *, account: str | None = None, after: str | None = None, limit: int = 50
    ) -> Flow[Page[Hold]]:
        """A page of reservations, newest first."""
        return self.get("/api/reservations", Page[Hold], account=account, cursor=after, limit=limit)


def _rate(headers: Mapping[str, str]) -> Rate | None:
    """The plan's jobs per hour and what is left of them, which a server tells beside the receipt."""
    policy = re.search(r"q=(\d+)", headers.get("ratelimit-policy", ""))
    left = re.search(r"r=(\d+);t=(\d+)", headers.get("ratelimit", ""))
    return None if policy is None or left is None else Rate(int(policy[1]), int(left[1]), int(left[2]))
