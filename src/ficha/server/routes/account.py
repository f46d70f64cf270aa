"""The account: balance, plan and usage; its ledger; what happens to all its jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from ...core.policy import Plan
from ...engine.views import AccountView, EntryView, EventView, Page
from .. import wire as s
from ..guard import AccountReader, Call
from ..openapi import gives
from ..responses import answer
from ..streams import EventStream, follow_account
from .jobs import history, resume_after, wants_stream
from .parameters import Cursor, ForAccount, Limit

routes = APIRouter(prefix="/api/account", tags=["account"])


@routes.get("", summary="Look at the account")
@gives(s.AccountAnswer, "NOT_FOUND")
async def account(call: AccountReader, account: ForAccount = None) -> Response:
    """Balance, plan, what is active and what was spent, with what the plan allows."""
    return answer(await told(call, await call.app.account(call.account(account))))


async def told(call: Call, account: AccountView) -> s.AccountAnswer:
    plan = call.app.policy.plans.get(account.plan)
    used = await call.app.queries.file_usage(account.id)
    return s.AccountAnswer(
        **msgspec.structs.asdict(account),
        files=used.files,
        storage_bytes=used.size,
        limits=None if plan is None else _limits(plan),
    )


def _limits(plan: Plan) -> s.PlanLimits:
    return s.PlanLimits(
        max_running=plan.max_running,
        max_active=plan.max_active,
        per_hour=plan.per_hour,
        daily_limit=plan.daily_limit,
        monthly_limit=plan.monthly_limit,
        file_bytes=plan.file_bytes,
        max_files=plan.max_files,
        storage_bytes=plan.storage_bytes,
    )


@routes.get("/ledger", summary="The account's ledger")
@gives(Page[EntryView], "NOT_FOUND")
async def ledger(call: AccountReader, account: ForAccount = None, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """A page of ledger lines, newest first: every charge, refund, grant and correction."""
    return await ledger_page(call, call.account(account), cursor, limit)


async def ledger_page(call: Call, account: str, cursor: str | None, limit: int) -> Response:
    page = await call.app.ledger(account, before=call.cursor("ledger", cursor), limit=limit)
    return answer(call.page("ledger", page))


@routes.get("/events", summary="Follow all jobs of the account")
@gives(Page[EventView], "NOT_ACCEPTABLE", "NOT_FOUND")
async def events(
    call: AccountReader,
    account: ForAccount = None,
    after: Annotated[int, Query(ge=0, lt=2**63, description="Only events after this number.")] = 0,
    limit: Limit = 100,
    last_event_id: Annotated[str | None, Header(description="The last event id received: resumes after it.")] = None,
) -> Response:
    """What happens to the account's jobs, live, or with `Accept: application/json` a part of their history."""
    found = await call.app.account(call.account(account))
    if wants_stream(call.request):
        start = resume_after(last_event_id, after)
        return EventStream(call, follow_account(call.app, found.id, start, sees_all=call.sees_all))
    return answer(await history(call, call.app.queries.events(found.id, after, limit)))
