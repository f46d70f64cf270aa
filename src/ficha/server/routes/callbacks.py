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
    """Keeps the call-back with its job, and has the result collected. One that comes twice, late, or about another run
    changes nothing, and is answered alike. If it cannot be stored now, the answer is 503: send it again."""
    await call.request.app.state.opening()
    # First: nobody's body is read who has no address.
    call.app.check_callback(provider, token)
    await call.app.receive_callback(provider, token, call.request.headers, await call.request.body())
    return answer(s.CallbackAnswer(True))
