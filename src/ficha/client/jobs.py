"""Jobs: submit, look, watch, cancel; and reservations, which hold a quota slot before the job exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack

from msgspec import Struct
from msgspec.structs import replace

from .. import validation as arg
from ..core.records import ReservationState
from ..core.states import FINAL
from ..engine.views import (
    EventView,
    FinishView,
    Happening,
    Hold,
    JobToken,
    JobView,
    Page,
    Quote,
    Receipt,
    ToolView,
    Whole,
)
from ..ids import new_id
from ..requests import BatchRequest, JobFilter, SubmitOptions, SubmitRequest
from .effects import READ_S, Flow, Send, Stream
from .operation import iteration, operation
from .sending import RequestMethods, checked, joined, posted
from .watching import JobWatch

OWN_KEY_HOURS: Final = 1.0
"""How long a key that the client makes by itself is kept, at least. It is only for the client's own retries."""
LONGEST_WAIT_S: Final = 30.0
"""How long a server lets a submit wait for the job's end, unless it is set otherwise."""


class _Active(Struct):
    job: JobView | None


class _Waited(Receipt, frozen=True, kw_only=True):
    job: JobView | None = None


class JobMethods(RequestMethods):
    @operation
    def submit(
        self,
        tool: str,
        payload: Mapping[str, Any] | None = None,
        *,
        account: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> Flow[Receipt]:
        """Creates and charges a job (or, where the tool splits large requests, a batch of them).

        The options are those of `SubmitRequest`. Retries create no second job: without a key, the client makes
        one for all its tries.
        """
        return self._submitted("/api/jobs", _request(tool, payload, account, options))

    @operation
    def submit_request(self, request: SubmitRequest) -> Flow[Receipt]:
        """The same, from a request."""
        return self._submitted("/api/jobs", request)

    def _submitted(self, path: str, request: SubmitRequest | BatchRequest) -> Flow[Receipt]:
        """Sends a submit, which has a key and so may be sent again."""
        return self.decoded(self._sent(path, request), Receipt)

    def _sent(self, path: str, request: SubmitRequest | BatchRequest, **headers: str) -> Send:
        if request.idempotency_key is None:
            hours = request.key_ttl_hours or max(OWN_KEY_HOURS, self.retries.give_up_s / 1_800)
            request = replace(request, idempotency_key=new_id(), key_ttl_hours=hours)
        return posted(path, checked(request), harmless=True, headers=headers)

    @operation
    def submit_and_wait(
        self,
        tool: str,
        payload: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        account: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> Flow[JobView]:
        """Submits a job and waits for its end, which for a short one takes a single request; `TimeoutError` if it has
        not ended in time. A split request ends with its last part."""
        began_at = self.clock()
        wait_s = LONGEST_WAIT_S if timeout_s is None else min(timeout_s, LONGEST_WAIT_S)
        request = self._sent("/api/jobs", _request(tool, payload, account, options), Prefer=f"wait={int(wait_s)}")
        waited = yield from self.decoded(replace(request, read_s=READ_S + wait_s), _Waited)
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
        **options: Unpack[SubmitOptions],
    ) -> Flow[Quote]:
        """What a submit would cost, whether it would be admitted, and where it would stand. Changes nothing."""
        return self.quoted(_request(tool, payload, account, options))

    @operation
    def quote_request(self, request: SubmitRequest) -> Flow[Quote]:
        """The same, from a request."""
        return self.quoted(request)

    def quoted(self, request: SubmitRequest) -> Flow[Quote]:
        return self.decoded(posted("/api/quote", checked(request), harmless=True), Quote)

    @operation
    def wait(self, job_id: str, timeout_s: float | None = None) -> Flow[JobView]:
        """Waits for a job's end and returns it; `TimeoutError` if it has not ended in time."""
        ends_at = float("inf") if timeout_s is None else self.clock() + timeout_s
        return JobWatch(self, arg.job_id(job_id), 0, ends_at).end()

    @iteration
    def watch(self, job_id: str, *, after: int = 0) -> Stream[Happening]:
        """All that happens to a job until it has ended: its events after the number `after`, each once and in order;
        its place in the queue whenever that changes; and the job itself, first as it is now and at last as it ended.

        Live, or by polling where no stream is available; that gives the same, a little later.
        """
        return JobWatch(self, arg.job_id(job_id), after).stream()

    @operation
    def job(self, job_id: str) -> Flow[JobView]:
        """A job as it stands now, with its position while it waits."""
        return self.get(f"/api/jobs/{arg.job_id(job_id)}", JobView)

    @operation
    def jobs(self, **asked: Unpack[JobFilter]) -> Flow[Page[JobView]]:
        """A page of jobs, newest first; `after` is the `next` of the previous page.

        Payloads, results and what checkpoints hold are left out, except for those that `include` names.
        """
        query: dict[str, Any] = {**asked}
        statuses, after, include = query.pop("statuses", ()), query.pop("after", None), query.pop("include", ())
        query |= {"status": list(statuses), "cursor": after, "include": joined(include)}
        return self.get("/api/jobs", Page[JobView], **query)

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
        return (yield from self.get(path, Page[EventView], account=whose, after=after, limit=limit)).items

    @operation
    def cancel(self, job_id: str, *, reason: str | None = None) -> Flow[FinishView]:
        """Cancels an active job and refunds it. An ended job stays as it is."""
        return self.post(f"/api/jobs/{arg.job_id(job_id)}/cancel", FinishView, {"reason": reason}, harmless=True)

    @operation
    def job_token(self, job_id: str, *, ttl_s: float | None = None) -> Flow[JobToken]:
        """A token with which a browser can look at, follow and cancel this one job for a while."""
        return self.post(f"/api/jobs/{arg.job_id(job_id)}/token", JobToken, {"ttl_s": ttl_s}, harmless=True)

    @operation
    def tools(self) -> Flow[list[ToolView]]:
        """What can be submitted, by name, with the schema of each payload."""
        return (yield from self.get("/api/tools", Whole[ToolView])).items

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
        self,
        *,
        account: str | None = None,
        state: ReservationState | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Flow[Page[Hold]]:
        """A page of reservations, newest first; with a `state`, only those in that state now."""
        wanted = arg.reservation_state(state)
        return self.get("/api/reservations", Page[Hold], account=account, state=wanted, cursor=after, limit=limit)


def _request(
    tool: str, payload: Mapping[str, Any] | None, account: str | None, options: SubmitOptions
) -> SubmitRequest:
    return SubmitRequest(tool=tool, payload={} if payload is None else payload, account=account, **options)
