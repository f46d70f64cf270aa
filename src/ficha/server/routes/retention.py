"""Removal of old data by its age, and erasure of accounts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from ...core.commands import CloseAccount, EraseRows
from ...engine.views import Erased, PruneReport
from .. import paths  # noqa: F401 (knows the parameters `…:ficha_name`)
from .. import wire as s
from ..guard import Admin
from ..openapi import gives
from ..request_body import body
from ..responses import answer

routes = APIRouter(prefix="/api/admin", tags=["admin"])


@routes.post("/prune", summary="Remove what is due by its age")
@gives(PruneReport)
async def prune(call: Admin, asked: Annotated[s.PruneBody, body(s.PruneBody)]) -> Response:
    """Removes for up to `max_seconds`, or only counts (`dry_run`). If there is `more`, another call continues."""
    return answer(await call.acting.prune(dry_run=asked.dry_run, max_seconds=asked.max_seconds))


@routes.post("/accounts/{account:ficha_name}/erase", summary="Erase an account")
@gives(Erased, CloseAccount, EraseRows)
async def erase(call: Admin, account: str) -> Response:
    """Removes a person's data for good, and closes the account. Ledger lines stay, without their reasons. Repeat a
    call that was cut off."""
    return answer(await call.acting.erase(account))
