"""A host application that has the shop mounted, for a real uvicorn."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from ficha import Ficha
from tests.support.shop import PLANS, POOLS, declare


class Shop(Ficha):
    async def pools(self) -> Any:
        raise RuntimeError(f"a defect that quotes its caller: {os.environ['CANARY']}")


shop = declare(Shop(plans=PLANS, pools=POOLS))


@asynccontextmanager
async def lifespan(host: FastAPI) -> AsyncIterator[None]:
    async with shop:
        yield


host = FastAPI(lifespan=lifespan)
host.mount("/ficha", shop.asgi())
