"""Sessions of pages: a page says that it is open, or that it was left."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ...core.commands import ChangeSession
from ...engine.views import SessionView
from .. import paths  # noqa: F401 (knows the parameter `…:ficha_name`)
from ..guard import Account
from ..openapi import gives
from ..responses import answer
from .parameters import ForAccount

routes = APIRouter(prefix="/api/sessions", tags=["sessions"])


@routes.post("/{session:ficha_name}/stay", summary="Say that a page is open")
@gives(SessionView, ChangeSession)
async def stay(call: Account, session: str, account: ForAccount = None) -> Response:
    """Revokes that the page was left, if it was. If the page then sends nothing for `silent_session_s`, the session's
    queued jobs are cancelled and refunded."""
    return answer(await call.app.stay_in_session(session, account=call.account(account)))


@routes.post("/{session:ficha_name}/leave", summary="Say that a page was left")
@gives(SessionView, ChangeSession)
async def leave(call: Account, session: str, account: ForAccount = None) -> Response:
    """After `leave_grace_s` the session's queued jobs are cancelled and refunded. Calling `stay`, submitting a job of
    the session, or following one with the parameter `session` revokes that. Running jobs go on."""
    return answer(await call.app.leave_session(session, account=call.account(account)))
