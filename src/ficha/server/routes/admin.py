"""For operators: accounts and credits, pools, dead letters, keys, and the log of all such acts.

Every change goes through `call.acting`, which writes it to the audit log in the same transaction.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from ... import validation as arg
from ...core import commands as c
from ...core.outcomes import Discarded
from ...core.policy import Plan
from ...core.pools import CONCURRENCY, COUNTED_READY, COUNTED_READY_MOST
from ...declarations import NAME_LENGTH
from ...engine.views import (
    AccountView,
    ApiKeyView,
    AuditView,
    Credited,
    EntryView,
    FinishView,
    Hold,
    JobView,
    KeyView,
    MarginView,
    NewApiKey,
    Overview,
    Page,
    PoolView,
    ProviderView,
    QueueDepthView,
    Requeued,
    Whole,
    WorkerView,
)
from .. import paths  # noqa: F401 (knows the parameters `…:ficha_name`)
from .. import wire as s
from ..guard import Admin, Call, Viewer
from ..openapi import gives
from ..request_body import body
from ..responses import answer, polled
from .account import ledger_page, told
from .jobs import one_key
from .parameters import Cursor, Day, ForAccount, IfNoneMatch, Include, InState, Key, Limit, Range, texts

routes = APIRouter(prefix="/api/admin", tags=["admin"])


@routes.get("/accounts", summary="List accounts")
@gives(Page[AccountView])
async def accounts(
    call: Viewer,
    search: Annotated[
        str | None, Query(min_length=1, max_length=NAME_LENGTH, description="Only accounts whose id begins with this.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """A page of accounts, by id."""
    page = await call.app.accounts(search=search, after=call.cursor("accounts", cursor), limit=limit)
    return polled(call.page("accounts", page), call.request)


@routes.post("/accounts", summary="Open an account")
@gives(AccountView, c.OpenAccount, status=201)
async def open_account(call: Admin, asked: Annotated[s.OpenAccountBody, body(s.OpenAccountBody)]) -> Response:
    """Opens an account, with a first grant of credits if any."""
    opened = await call.acting.open_account(
        asked.account, plan=asked.plan, credits=asked.credits, exist_ok=asked.exist_ok
    )
    return answer(opened, 201)


@routes.get("/accounts/{account:ficha_name}/ledger", summary="An account's ledger")
@gives(Page[EntryView], "NOT_FOUND")
async def ledger(call: Viewer, account: str, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """A page of ledger lines, newest first."""
    return await ledger_page(call, account, cursor, limit)


@routes.post("/accounts/{account:ficha_name}/grant", summary="Add credits")
@gives(Credited, c.Credit)
async def grant(
    call: Admin, account: str, asked: Annotated[s.CreditBody, body(s.CreditBody)], idempotency_key: Key = None
) -> Response:
    """Adds credits, and shows the ledger line. With a key (a payment's id, say) a repeat adds nothing."""
    key = one_key(idempotency_key, asked.key)
    return answer(await call.acting.grant(account, asked.amount, reason=asked.reason, key=key))


@routes.post("/accounts/{account:ficha_name}/adjust", summary="Correct a balance")
@gives(Credited, c.Credit)
async def adjust(
    call: Admin, account: str, asked: Annotated[s.CreditBody, body(s.CreditBody)], idempotency_key: Key = None
) -> Response:
    """Corrects a balance, up or down but never below zero."""
    key = one_key(idempotency_key, asked.key)
    if asked.reason is None:
        raise arg.invalid("a correction needs a `reason`")
    return answer(await call.acting.adjust(account, asked.amount, reason=asked.reason, key=key))


@routes.post("/accounts/{account:ficha_name}/plan", summary="Move an account to another plan")
@gives(AccountView, c.ChangePlan)
async def change_plan(call: Admin, account: str, asked: Annotated[s.PlanBody, body(s.PlanBody)]) -> Response:
    """Queued jobs keep their priority; parked ones that now fit become ready."""
    return answer(await call.acting.change_plan(account, asked.plan))


@routes.get("/accounts/{account:ficha_name}", summary="Look at an account")
@gives(s.AccountAnswer, "NOT_FOUND")
async def account(call: Viewer, account: str) -> Response:
    """Balance, plan and usage. A slash in a name is written `%2F`."""
    return answer(await told(call, await call.app.account(account)))


@routes.get("/overview", summary="Figures over time, and what to look at")
@gives(Overview, "INVALID_ARGUMENT")
async def overview(call: Viewer, range: Range = "24h") -> Response:
    """Queue depth, throughput, waits and runs, credits and costs over a time up to now; the current state of pools,
    workers and providers; and alerts, each with what to do. Made from sums by minute and hour, not from single jobs."""
    return answer(await call.app.overview(range))


@routes.get("/plans", summary="List plans")
@gives(Whole[Plan])
async def plans(call: Viewer) -> Response:
    """The plans that the application declares."""
    return answer(Whole(call.app.policy.declared_plans))


@routes.get("/pools", summary="List pools")
@gives(Whole[PoolView])
async def pools(call: Viewer) -> Response:
    """All pools: slots, how many are busy, how many jobs are ready."""
    return answer(Whole(await call.app.pools()))


POOLS_ASKED: Final = 90
"""A request has at most 100 parameters."""


@routes.get("/queue-depth", summary="How much work a pool has")
@gives(QueueDepthView, "NOT_FOUND", "INVALID_ARGUMENT")
async def queue_depth(
    call: Viewer,
    pool: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)]] | None,
        Query(max_length=POOLS_ASKED, description="A pool's name; several are added up. Without any: all pools."),
    ] = None,
    concurrency: Annotated[int, Query(ge=1, description="How many jobs a worker runs at a time.")] = CONCURRENCY,
    count_up_to: Annotated[
        int, Query(ge=1, le=COUNTED_READY_MOST, description="Counts no more ready jobs than this.")
    ] = COUNTED_READY,
) -> Response:
    """How many jobs are ready, how many run, and for how many workers there is work now: what an autoscaler polls."""
    return answer(await call.app.queue_depth(*(pool or ()), concurrency=concurrency, count_up_to=count_up_to))


@routes.post("/pools/{pool:ficha_name}/pause", summary="Start nothing new in a pool")
@gives(PoolView, c.PausePool)
async def pause(call: Admin, pool: str) -> Response:
    """Running jobs go on."""
    await call.acting.pause_pool(pool)
    return await _pool(call, pool)


@routes.post("/pools/{pool:ficha_name}/resume", summary="Start jobs in a pool again")
@gives(PoolView, c.PausePool)
async def resume(call: Admin, pool: str) -> Response:
    await call.acting.resume_pool(pool)
    return await _pool(call, pool)


@routes.post("/pools/{pool:ficha_name}/resize", summary="Change a pool's slots")
@gives(PoolView, c.ResizePool)
async def resize(call: Admin, pool: str, asked: Annotated[s.ResizeBody, body(s.ResizeBody)]) -> Response:
    """Overrides the declared number of slots, on all machines; null returns to it."""
    await call.acting.resize_pool(pool, asked.slots)
    return await _pool(call, pool)


async def _pool(call: Call, name: str) -> Response:
    return answer(next(pool for pool in await call.app.pools() if pool.name == name))


@routes.get("/providers", summary="List external providers")
@gives(Whole[ProviderView])
async def providers(call: Viewer) -> Response:
    """The state of each provider, over all processes: its circuit breaker, and its requests under way."""
    return answer(Whole(await call.app.provider_states()))


@routes.post("/providers/{provider:ficha_name}/open", summary="Send nothing to a provider for a while")
@gives(ProviderView, c.OpenBreaker)
async def open_breaker(
    call: Admin, provider: str, asked: Annotated[s.OpenBreakerBody, body(s.OpenBreakerBody)]
) -> Response:
    """Opens its circuit breaker, however its requests fare. After that time a probe is sent."""
    return answer(await call.acting.open_breaker(provider, seconds=asked.seconds, reason=asked.reason))


@routes.post("/providers/{provider:ficha_name}/reset", summary="Send requests to a provider again")
@gives(ProviderView, c.CloseBreaker)
async def reset_breaker(call: Admin, provider: str) -> Response:
    """Closes its circuit breaker at once."""
    return answer(await call.acting.reset_breaker(provider))


@routes.get("/margins", summary="What jobs earned and cost")
@gives(Whole[MarginView], "INVALID_ARGUMENT", "TOO_LARGE")
async def margins(call: Viewer, since: Day = None, until: Day = None) -> Response:
    """By UTC day of the submit, tool and plan: jobs, credits that were not refunded, and what providers charged. Only
    jobs whose cost is known are counted. Without days, those of the last 30 days."""
    return answer(Whole(await call.app.margins(since=since, until=until)))


@routes.get("/dead", summary="List dead letters")
@gives(Page[JobView])
async def dead(
    call: Viewer, account: ForAccount = None, cursor: Cursor = None, limit: Limit = 50, include: Include = None
) -> Response:
    """Failed jobs that nobody has dealt with, newest first."""
    page = await call.app.dead_letters(
        account=account, after=call.cursor("dead", cursor), limit=limit, include=texts(include)
    )
    return answer(call.page("dead", page))


@routes.post("/dead/{job_id}/requeue", summary="Run a dead letter again")
@gives(Requeued, c.Requeue, status=201)
async def requeue(call: Admin, job_id: str) -> Response:
    """Does the work again as a new job, charged anew."""
    return answer(Requeued(await call.acting.requeue(job_id)), 201)


@routes.post("/dead/{job_id}/discard", summary="Take a job off the dead-letter list")
@gives(Discarded, c.Discard)
async def discard(call: Admin, job_id: str) -> Response:
    return answer(await call.acting.discard(job_id))


@routes.post("/jobs/{job_id}/refund", summary="Give back what a job was charged")
@gives(FinishView, c.RefundJob)
async def refund(call: Admin, job_id: str, asked: Annotated[s.RefundBody, body(s.RefundBody)]) -> Response:
    """Refunds an ended job, once: all of it, an `amount`, or a `share` of the charge, rounded up to a whole credit. To
    give back the rest of a partly refunded job, use `adjust`."""
    given_back = call.acting.refund(job_id, reason=asked.reason, amount=asked.amount, share=asked.share)
    return answer(await given_back)


@routes.get("/workers", summary="List workers")
@gives(Page[WorkerView])
async def workers(call: Viewer, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """All workers, alive or gone, by name: who they are and what became of their runs."""
    page = await call.app.workers(after=call.cursor("workers", cursor), limit=limit)
    return answer(call.page("workers", page))


@routes.get("/reservations", summary="List reservations")
@gives(Page[Hold])
async def reservations(
    call: Viewer, account: ForAccount = None, state: InState = None, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """A page of reservations, newest first; with a `state`, only those in that state now."""
    wanted = arg.reservation_state(state)
    page = await call.app.reservations(
        account=account, state=wanted, after=call.cursor("reservations", cursor), limit=limit
    )
    return answer(call.page("reservations", page))


@routes.get("/reservations/counts", summary="Count reservations by state")
@gives(s.ReservationCounts)
async def reservation_counts(call: Viewer, account: ForAccount = None) -> Response:
    """How many there are in each state now, of one account or of all."""
    counts = await call.app.count_reservations(account=account)
    return answer(s.ReservationCounts(by_state=counts, total=sum(counts.values())))


@routes.get("/idempotency-keys", summary="List idempotency keys")
@gives(Page[KeyView])
async def idempotency_keys(
    call: Viewer,
    account: ForAccount = None,
    key: Annotated[str | None, Query(max_length=255, description="Only this key of the account.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """A page of keys and what they led to, by account and key."""
    after = call.cursor("idempotency-keys", cursor)
    found = await call.app.idempotency_keys(
        account=account,
        key=key,
        after=None if after is None else msgspec.json.decode(after, type=tuple[str, str, str]),
        limit=limit,
    )
    last = found[-1] if len(found) == limit else None
    following = None if last is None else msgspec.json.encode((last.account, last.key, last.scope)).decode()
    return answer(call.page("idempotency-keys", Page(found, following)))


@routes.get("/api-keys", summary="List API keys")
@gives(Page[ApiKeyView])
async def api_keys(call: Viewer, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """A page of keys, without their secrets, which are not stored."""
    page = await call.app.api_keys(after=call.cursor("api-keys", cursor), limit=limit)
    return answer(call.page("api-keys", page))


@routes.post("/api-keys", summary="Create an API key")
@gives(NewApiKey, c.CreateApiKey, status=201)
async def create_api_key(call: Admin, asked: Annotated[s.ApiKeyBody, body(s.ApiKeyBody)]) -> Response:
    """Creates a key and shows it this once. Two live keys may have one name, to replace one by the other."""
    made = await call.acting.create_api_key(asked.name, scope=asked.scope, account=asked.account, ttl_s=asked.ttl_s)
    return answer(made, 201)


@routes.post("/api-keys/{key_id}/revoke", summary="Revoke an API key")
@gives(ApiKeyView, c.RevokeApiKey)
async def revoke_api_key(call: Admin, key_id: str) -> Response:
    """The key is refused from now on; by other processes within two seconds."""
    revoked = await call.acting.revoke_api_key(key_id)
    call.identity.forget(revoked.id)
    return answer(revoked)


@routes.get("/audit", summary="The log of administrative acts")
@gives(Page[AuditView])
async def audit(
    call: Viewer,
    target: Annotated[
        str | None, Query(max_length=1_000, description="Only acts on this, such as `account ana`.")
    ] = None,
    actor: Annotated[str | None, Query(max_length=1_000, description="Only acts in this name.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Who did what to whom, newest first."""
    page = await call.app.audit(target=target, actor=actor, after=call.cursor("audit", cursor), limit=limit)
    return polled(call.page("audit", page), call.request)
