"""A server of files and nothing else, as a process whose memory can be looked at.

`python -m tests.files.file_server URL` prints its port and serves until its input ends."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import aclosing

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ficha.files.downloads import Download
from ficha.files.multipart import upload_parts
from ficha.files.storage import open_storage

KEY = "account/file-1"


async def main(url: str) -> None:
    storage = open_storage(url)
    digests = {}

    async def upload(request: Request) -> JSONResponse:
        stored = None
        async with aclosing(upload_parts(request.headers.get("content-type"), request.stream())) as parts:
            async for part in parts:
                async with aclosing(part.chunks()) as chunks:
                    stored = await storage.put(KEY, chunks, 2 << 30)
        assert stored is not None
        digests[KEY] = stored
        return JSONResponse({"size": stored.size, "digest": stored.digest})

    async def download(request: Request) -> Download:
        stored = digests[KEY]
        return Download(
            storage, KEY, size=stored.size, digest=stored.digest, media_type="video/mp4", name="a.mp4", inline=True
        )

    app = Starlette(routes=[Route("/file", upload, methods=["POST"]), Route("/file", download)])
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    print(listening.getsockname()[1], flush=True)
    serving = asyncio.create_task(server.serve([listening]))
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
