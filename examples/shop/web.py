"""The shop over HTTP: orders, payments, the provider's call-back; and Ficha's own API under /jobs, for live updates."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

import signatures
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from jobs import app
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from tables import Order, Payment, User, sessions

from ficha import Refused
from ficha.server import Settings

WELCOME = 3
"""Credits for whoever comes for the first time."""
STATUS = {
    "INSUFFICIENT_CREDITS": 402,
    "COST_LIMIT": 402,
    "UNKNOWN_TOOL": 404,
    "NOT_FOUND": 404,
    "INVALID_PAYLOAD": 422,
    "INVALID_ARGUMENT": 422,
    "IDEMPOTENCY_MISMATCH": 422,
    "QUOTA_EXCEEDED": 429,
    "RATE_LIMITED": 429,
    "OVERLOADED": 503,
}


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with app:
        yield


web = FastAPI(title="Shop", lifespan=lifespan)
web.mount(
    "/jobs",
    app.asgi(
        Settings(
            secret=os.environ["FICHA_SECRET"],
            jwt_secret=signatures.JWT_SECRET,
            jwt_audience=signatures.AUDIENCE,
            jwt_issuer=signatures.ISSUER,
        )
    ),
)


@web.exception_handler(Refused)
async def refused(_: Request, error: Refused) -> JSONResponse:
    return JSONResponse({"code": error.code, "message": error.message}, STATUS.get(error.code, 409))


@web.exception_handler(signatures.Unsigned)
async def unsigned(_: Request, error: signatures.Unsigned) -> JSONResponse:
    return JSONResponse({"code": "UNAUTHENTICATED", "message": str(error)}, 401)


async def current_user(authorization: Annotated[str, Header()] = "") -> str:
    """Who calls. They are known from their first call on, with an account and a few credits."""
    user_id = signatures.user_of(authorization)
    async with sessions.begin() as session:
        await welcome(session, user_id)
    return user_id


async def welcome(session: AsyncSession, user_id: str) -> None:
    made = await session.execute(insert(User).values(id=user_id).on_conflict_do_nothing())
    if made.rowcount:
        await app.open_account(user_id, plan="free", credits=WELCOME, connection=session)


CurrentUser = Annotated[str, Depends(current_user)]


class NewOrder(BaseModel):
    tool: str
    payload: dict[str, Any] = {}
    title: str


@web.post("/orders", status_code=201)
async def order(
    wanted: NewOrder, user_id: CurrentUser, idempotency_key: Annotated[str | None, Header()] = None
) -> dict[str, Any]:
    async with sessions.begin() as session:
        receipt = await app.submit(
            wanted.tool, wanted.payload, account=user_id, idempotency_key=idempotency_key, connection=session
        )
        if not receipt.idempotent_hit:
            session.add(Order(job_id=UUID(receipt.job_id), user_id=user_id, tool=wanted.tool, title=wanted.title))
    return {"job": receipt.job_id, "position": receipt.position, "credits": receipt.new_balance}


@web.get("/orders")
async def orders(user_id: CurrentUser) -> list[dict[str, Any]]:
    async with sessions() as session:
        found = await session.scalars(select(Order).where(Order.user_id == user_id).order_by(Order.job_id.desc()))
        return [{"job": one.job_id, "tool": one.tool, "title": one.title, "status": one.status} for one in found]


@web.get("/orders/{job_id}")
async def one_order(job_id: UUID, user_id: CurrentUser) -> dict[str, Any]:
    async with sessions() as session:
        found = await session.get(Order, job_id)
    if found is None or found.user_id != user_id:
        raise HTTPException(404, "there is no such order")
    job = await app.job(str(job_id))
    return {"title": found.title, "status": job.status, "position": job.position, "result": job.result}


async def signed_body(request: Request, signature: Annotated[str, Header()] = "") -> bytes:
    body = await request.body()
    signatures.check(body, signature)
    return body


class Paid(BaseModel):
    payment: str
    user: str
    credits: int


@web.post("/payments/webhook")
async def paid(body: Annotated[bytes, Depends(signed_body)]) -> dict[str, Any]:
    """The payment service says that somebody paid; it says so again until it gets an answer."""
    told = Paid.model_validate_json(body)
    async with sessions.begin() as session:
        await welcome(session, told.user)
        line = insert(Payment).values(id=told.payment, user_id=told.user, credits=told.credits)
        is_new = (await session.execute(line.on_conflict_do_nothing())).rowcount == 1
        await app.grant(told.user, told.credits, reason=told.payment, key=told.payment, connection=session)
    return {"credited": is_new}


class VideoDone(BaseModel):
    ref: str
    url: str | None = None
    error: str | None = None


@web.post("/video/webhook")
async def video_done(body: Annotated[bytes, Depends(signed_body)]) -> dict[str, Any]:
    """The provider says how a video went; what it says twice, or too late, changes nothing."""
    told = VideoDone.model_validate_json(body)
    job = await app.job_by_ref(told.ref, tool="video")
    words = told.error or "the provider made no video"
    ending = app.failed(words, final=True, for_user=True) if told.url is None else app.completed({"video": told.url})
    return {"status": (await app.finish_job(job.id, ending)).status}
