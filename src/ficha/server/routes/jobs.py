"""Jobs: submitted, asked about, looked at, followed and cancelled by those who pay for them."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from contextlib import suppress
from typing import Annotated, Final, TypeVar

from fastapi import APIRouter, Header, Query
from msgspec.structs import asdict, replace
from starlette.requests import Request
from starlette.responses import Response

from ... import validation as arg
from ...core.commands import CancelJob, Submit
from ...core.records import Status
from ...core.states import FINAL
from ...engine.views import EventView, FinishView, JobToken, JobView, Page, Quote, Receipt
from ...errors import Refused
from ...operations.following import request_in
from ...requests import BatchRequest, SubmitRequest
from .. import wire as s
from ..guard import Account, AccountReader, Call, JobReader, OneJob, Stream
from ..openapi import gives
from ..problems import EdgeError
from ..request_body import body
from ..responses import answer, job_answer, rate_headers
from ..streams import END, EventStream, await_end, follow_job
from .parameters import Cursor, ForAccount, IfNoneMatch, Include, InSession, Key, Limit, Names, texts

routes = APIRouter(prefix="/api", tags=["jobs"])

SUBMITS: Final = (Submit, "INVALID_PAYLOAD", "UNKNOWN_TOOL")
"""What may refuse a submit: its rule, and the checks of its tool and payload."""
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?\s*(?:$|[,;])")

Submitting = TypeVar("Submitting", bound=SubmitRequest | BatchRequest)
Prefer = Annotated[
    str | None, Header(description="`wait=20`: answer once the job has ended, or after that many seconds.")
]


@routes.post("/jobs", summary="Submit a job")
@gives(s.SubmitAnswer, *SUBMITS, status=201, also=200)
async def submit(
    call: Account,
    asked: Annotated[SubmitRequest, body(SubmitRequest)],
    idempotency_key: Key = None,
    prefer: Prefer = None,
) -> Response:
    """Creates and charges a job: 201. A repeat with the same idempotency key gets the first job: 200."""
    receipt = await call.doing.submit_request(in_full(call, asked, idempotency_key), by_user=not call.sees_all)
    return await submitted(call, receipt, prefer)


def in_full(call: Call, asked: Submitting, idempotency_key: str | None) -> Submitting:
    """The request with what the caller and the headers add to it."""
    return replace(
        asked,
        account=call.account(asked.account),
        idempotency_key=one_key(idempotency_key, asked.idempotency_key),
        correlation_id=asked.correlation_id or call.correlation_id,
    )


async def submitted(call: Call, receipt: Receipt, prefer: str | None) -> Response:
    """The answer to a submit; if the caller prefers to wait, once its job has ended."""
    job: JobView | None = None
    headers = {"Location": location(call.request, receipt), **rate_headers(receipt.rate)}
    if (wait_s := _wait_s(prefer, call.settings.wait_s)) is not None:
        call.usage.leave_turn()
        call.request.state.waits = True
        # A caller whose credential has ended meanwhile gets the answer to the submit, without the job.
        with suppress(Refused):
            async with call.while_valid():
                job = await await_end(call.app, receipt.job_id, wait_s)
        headers["Preference-Applied"] = f"wait={wait_s:g}"
    if job is not None:
        receipt = replace(receipt, status=job.status, position=job.position)
    told = s.SubmitAnswer(**asdict(receipt), job=None if job is None else call.shown(job))
    return answer(told, 200 if receipt.idempotent_hit else 201, headers)


def one_key(header: str | None, field: str | None) -> str | None:
    """The idempotency key, from the header or the body. An IETF draft puts the header's value in quotes."""
    given = header[1:-1] if header is not None and re.fullmatch(r'".*"', header) else header
    if given is not None and field is not None and given != field:
        raise arg.invalid("the Idempotency-Key header and the body's idempotency_key differ; send one of them")
    return field if given is None else given


def location(request: Request, receipt: Receipt) -> str:
    root: str = request.scope.get("root_path", "")
    return f"{root}/api/batches/{receipt.batch_id}" if receipt.jobs > 1 else f"{root}/api/jobs/{receipt.job_id}"


def _wait_s(prefer: str | None, most: float) -> float | None:
    found = None if prefer is None else _WAIT.search(prefer.lower())
    return None if found is None else min(float(found[1]), most)


@routes.post("/quote", summary="Ask what a submit would lead to")
@gives(Quote, "INVALID_PAYLOAD", "NOT_FOUND", "UNKNOWN_TOOL")
async def quote(call: Account, asked: Annotated[SubmitRequest, body(SubmitRequest)]) -> Response:
    """What a submit would cost, whether it would be admitted, and where it would stand. Changes nothing."""
    request = replace(asked, account=call.account(asked.account))
    return answer(await call.app.quote_request(request, by_user=not call.sees_all))


@routes.get("/jobs", summary="List jobs")
@gives(Page[JobView], "NOT_FOUND")
async def jobs(
    call: AccountReader,
    names: Names,
    status: Annotated[list[Status] | None, Query(description="Only those in these states; may be repeated.")] = None,
    account: ForAccount = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    include: Include = None,
) -> Response:
    """A page of jobs, newest first: a user's own, or for a service those of one account or of all."""
    page = await call.app.jobs(
        account=call.account_if_any(account),
        statuses=status or (),
        **names,
        after=call.cursor("jobs", cursor),
        limit=limit,
        include=texts(include),
    )
    return answer(call.page("jobs", Page([call.shown(job) for job in page.items], page.next)))


@routes.get("/jobs/active", summary="The account's active job")
@gives(s.ActiveAnswer, "NOT_FOUND")
async def active(call: AccountReader, account: ForAccount = None) -> Response:
    """Whether the account has a job that has not ended, and which: the one submitted last."""
    return answer(await active_job(call, account))


async def active_job(call: Call, named: str | None) -> s.ActiveAnswer:
    account = await call.app.account(call.account(named))
    job = await _latest_active(call, account.id, account.active_job) if account.active else None
    return s.ActiveAnswer(
        active=job is not None,
        job_id=None if job is None else job.id,
        status=None if job is None else job.status,
        tool=None if job is None else job.tool,
        job=None if job is None else call.shown(job),
    )


async def _latest_active(call: Call, account: str, latest: str | None) -> JobView | None:
    if latest is not None:
        return await call.app.job(latest)
    statuses: tuple[Status, ...] = ("queued", "starting", "running")
    page = await call.app.jobs(account=account, statuses=statuses, limit=1)
    return await call.app.job(page.items[0].id) if page.items else None


@routes.get("/jobs/{job_id}", summary="Look at a job")
@gives(JobView, "NOT_FOUND")
async def job(
    call: JobReader,
    job_id: str,
    if_none_match: IfNoneMatch = None,
    session: InSession = None,
) -> Response:
    """A job as it stands now, with its position and estimated wait."""
    found = await call.job(job_id)
    await _follow(call, found, session)
    return job_answer(call.shown(found), call.request)


async def _follow(call: Call, job: JobView, session: str | None) -> None:
    """Notes that the session's page is open, unless the caller is a viewer, who changes nothing."""
    if call.caller.scope != "viewer":
        await call.app.follow_in_session(job, session)


@routes.post("/jobs/{job_id}/cancel", summary="Cancel a job")
@gives(FinishView, CancelJob)
async def cancel(
    call: OneJob, job_id: str, asked: Annotated[s.ReasonBody, body(s.ReasonBody, optional=True)]
) -> Response:
    """Cancels an active job, refunds it and notifies a running handler. A job that has ended stays as it is."""
    call.check_job(job_id)
    return answer(await call.doing.cancel(job_id, account=call.owner, reason=asked.reason))


@routes.post("/jobs/{job_id}/token", summary="Make a token for one job")
@gives(JobToken, "NOT_FOUND", status=201)
async def token(
    call: Account, job_id: str, asked: Annotated[s.TokenBody, body(s.TokenBody, optional=True)]
) -> Response:
    """A short-lived token with which a browser can see, follow and cancel this job, and nothing else."""
    job = await call.job(job_id)
    return answer(call.identity.job_tokens.issue(arg.job_id(job_id), job.account, asked.ttl_s, by=call.caller), 201)


@routes.get("/jobs/{job_id}/events", summary="Follow a job")
@gives(Page[EventView], "NOT_ACCEPTABLE", "NOT_FOUND", also=204)
async def events(
    call: Stream,
    job_id: str,
    after: Annotated[int, Query(ge=0, lt=2**63, description="Only events after this number.")] = 0,
    limit: Limit = 100,
    last_event_id: Annotated[str | None, Header(description="The last event id received: resumes after it.")] = None,
    session: InSession = None,
) -> Response:
    """What happens to a job, live, or with `Accept: application/json` a part of its history."""
    job = await call.job(job_id)
    await _follow(call, job, session)
    if wants_stream(call.request):
        heard = None if last_event_id is None else last_event_id.removesuffix(END)
        start = resume_after(heard, after)
        if heard != last_event_id and await _has_ended(call, job, start):
            # What makes a browser's EventSource stop connecting again.
            return Response(None, 204)
        return EventStream(call, follow_job(call.app, job.id, start, request=request_in(job), sees_all=call.sees_all))
    return answer(await history(call, call.app.queries.history(job.id, None, after, limit)))


async def _has_ended(call: Call, job: JobView, after: int) -> bool:
    """Whether nothing more is to be told of a job."""
    if job.status not in FINAL:
        return False
    # The parts of a split request have the events, and its stream tells none of them.
    return job.parts is not None or not (await call.app.queries.history(job.id, None, after, 1)).items


async def history(call: Call, asked: Awaitable[Page[EventView]]) -> Page[EventView]:
    """A part of a history as the caller may see it."""
    page = await asked
    return Page([call.shown_event(event) for event in page.items], page.next)


def resume_after(last_event_id: str | None, after: int) -> int:
    return after if last_event_id is None else arg.cursor(last_event_id, "Last-Event-ID") or 0


def wants_stream(request: Request) -> bool:
    """Whether to answer with a stream: yes, unless the caller names JSON first."""
    accepted = [part.partition(";")[0].strip() for part in request.headers.get("accept", "*/*").lower().split(",")]
    for kind in accepted:
        if kind in ("text/event-stream", "text/*", "*/*", ""):
            return True
        if kind in ("application/json", "application/*"):
            return False
    raise EdgeError("NOT_ACCEPTABLE", "events come as text/event-stream or as application/json; accept one of them")
