"""A database with nothing in it, and the shop in this process: its web, and workers that a test runs."""

import os
from collections.abc import AsyncIterator

import pytest

os.environ.setdefault("SHOP_TESTS", "1")
os.environ.setdefault("FICHA_SECRET", "b3Blbi1zb3VyY2UtdGVzdHMtb2YtYS1zaG9wLTAxMjM0")
os.environ.setdefault("SHOP_JWT_SECRET", "anVzdC1mb3ItdGVzdHMtb2YtdGhlLXNob3AtMDEyMzQ1")
os.environ.setdefault("SHOP_WEBHOOK_SECRET", "d2ViaG9va3Mtb2YtdGhlLXNob3AtMDEyMzQ1Njc4OQ")

import httpx
import tables
from jobs import app
from web import web


@pytest.fixture
async def shop() -> AsyncIterator[httpx.AsyncClient]:
    async with tables.engine.begin() as connection:
        await connection.run_sync(tables.Base.metadata.drop_all)
        await connection.run_sync(tables.Base.metadata.create_all)
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://shop") as client:
        yield client
