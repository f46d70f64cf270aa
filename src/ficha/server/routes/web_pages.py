"""Web pages: the console, the API's documentation, and where `/` leads. They hold no data, so anybody may load them;
what they show comes from the API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..api_docs import docs_page
from ..page_files import ASSETS, INDEX, NOT_KEPT, PageFile, PageFolder
from ..plain_pages import STYLE, home, not_at_root, not_built
from ..settings import Settings

SERVER: Final = Path(__file__).parents[1]
CONSOLE: Final = SERVER / "pages" / "console"
"""Where the web build writes the console. It is not in the repository, but in wheels."""

Answering = Callable[[Request], Awaitable[Response]]


def page_routes(settings: Settings) -> list[Route]:
    """The routes of all pages; without the console where the settings switch it off."""
    routes = [Route("/", _home(settings)), Route("/docs", _docs()), Route(STYLE, _style())]
    if settings.console:
        serve = _console(PageFolder(CONSOLE))
        routes += [Route("/console", serve), Route("/console/{path:path}", serve)]
    return routes


def is_console_built() -> bool:
    return (CONSOLE / INDEX).is_file()


def _root(request: Request) -> str:
    root: str = request.scope.get("root_path", "")
    return root


def _home(settings: Settings) -> Answering:
    async def answer_home(request: Request) -> Response:
        if settings.console and not _root(request):
            return RedirectResponse("/console", 307)
        return PageFile.of(INDEX, home(_root(request))).answer(request)

    return answer_home


def _console(folder: PageFolder) -> Answering:
    async def answer_console(request: Request) -> Response:
        if _root(request):
            return PageFile.of(INDEX, not_at_root(_root(request))).answer(request, 404)
        files = await folder.files()
        if not files:
            return PageFile.of(INDEX, not_built(_root(request))).answer(request, 503)
        path: str = request.path_params.get("path", "")
        if (found := files.get(path)) is not None and path != INDEX:
            return found.answer(request)
        if path.startswith(ASSETS):
            raise HTTPException(404)
        # A path within the console, which the console's script reads.
        return files[INDEX].answer(request, cached=NOT_KEPT)

    return answer_console


def _docs() -> Answering:
    made: dict[str, PageFile] = {}

    async def answer_docs(request: Request) -> Response:
        root = _root(request)
        if root not in made:
            document = request.app.openapi()
            made[root] = await asyncio.to_thread(lambda: PageFile.of(INDEX, docs_page(document, root)))
        return made[root].answer(request)

    return answer_docs


def _style() -> Answering:
    made = PageFile.of("plain.css", (SERVER / "plain.css").read_bytes())

    async def answer_style(request: Request) -> Response:
        return made.answer(request)

    return answer_style
