"""Reservations: a quota slot held before the job exists."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from ... import validation as arg
from ...core.commands import EndReservation, Reserve
from ...engine.views import Hold, Page
from .. import wire as s
from ..guard import Account, AccountReader
from ..openapi import gives
from ..request_body import body
from ..responses import answer
from .parameters import Cursor, ForAccount, InState, Limit

routes = APIRouter(prefix="/api/reservations", tags=["reservations"])


@routes.post("", summary="Reserve a slot")
@gives(Hold, Reserve, status=201)
async def reserve(call: Account, asked: Annotated[s.ReserveBody, body(s.ReserveBody, optional=True)]) -> Response:
    """Holds one slot of the account's quota for a while, such as for the time of an upload."""
    return answer(await call.doing.reserve(call.account(asked.account), ttl_s=asked.ttl_s), 201)


@routes.get("", summary="List reservations")
@gives(Page[Hold])
async def reservations(
    call: AccountReader, account: ForAccount = None, state: InState = None, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """A page of reservations, newest first; with a `state`, of those that are in it now."""
    page = await call.app.reservations(
        account=call.account_if_any(account),
        state=arg.reservation_state(state),
        after=call.cursor("reservations", cursor),
        limit=limit,
    )
    return answer(call.page("reservations", page))


@routes.post("/{reservation_id}/consume", summary="Say that the job exists")
@gives(Hold, EndReservation)
async def consume(call: Account, reservation_id: str) -> Response:
    """A submit that names the reservation does this by itself."""
    return answer(await call.doing.consume(reservation_id, account=call.owner))


@routes.post("/{reservation_id}/release", summary="Free the slot")
@gives(Hold, EndReservation)
async def release(call: Account, reservation_id: str) -> Response:
    return answer(await call.doing.release(reservation_id, account=call.owner))
