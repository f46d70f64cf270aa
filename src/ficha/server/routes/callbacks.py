"""Where external providers call back. No key is needed: the address holds a token for one run of one job, and the
provider's signature is checked where it has one."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ...core import commands as c
from .. import wire as s
from ..guard import Open
from ..openapi import gives
from ..responses import answer

routes = APIRouter(tags=["providers"])


@routes.post("/api/webhooks/{provider}/{token}", summary="A provider calls back")
@gives(s.CallbackAnswer, c.NoteCallback, "UNAUTHENTICATED", takes_bytes=True)
async def receive(call: Open, provider: str, token: str) -> Response:
    """Stores the call-back with its job, and has the result collected. A call-back that is repeated, late, or about
    another run changes nothing, and gets the same answer. If it cannot be stored now, the answer is 503: send it
    again."""
    await call.request.app.state.opening()
    # First, so that no body is read of a caller without a valid address.
    call.app.check_callback(provider, token)
    await call.app.receive_callback(provider, token, call.request.headers, await call.request.body())
    return answer(s.CallbackAnswer(True))
