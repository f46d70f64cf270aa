"""Small pages that need no build: what is at `/`, and what is shown where the console was not built."""

from __future__ import annotations

from html import escape
from typing import Final

STYLE: Final = "/docs/style.css"


def page(title: str, content: str, root: str) -> bytes:
    """A whole page. `content` is HTML; `root` is the path that the application is mounted at."""
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title>"
        f'<link rel="icon" href="data:,"><link rel="stylesheet" href="{escape(root + STYLE)}"></head>'
        f"<body>{content}</body></html>\n"
    ).encode()


def home(root: str) -> bytes:
    """What this is and where to go from here, for where there is no console."""
    return page(
        "Ficha",
        '<main class="small"><h1>Ficha</h1>'
        "<p>A durable job queue with a credit ledger inside. This is its HTTP API.</p>"
        f'<ul><li><a href="{escape(root)}/docs">Documentation of the API</a></li>'
        f'<li><a href="{escape(root)}/api/openapi.json">The OpenAPI document</a></li>'
        f'<li><a href="{escape(root)}/readyz">Whether it can serve</a></li></ul></main>',
        root,
    )


def not_built(root: str) -> bytes:
    return page(
        "Console not built",
        '<main class="small"><h1>The console is not built</h1>'
        "<p>Its pages are made once, by this command in the repository:</p><pre><code>make web</code></pre>"
        "<p>Then load this page again. A wheel that was built with <code>make wheel</code> brings them along. "
        "<code>FICHA_CONSOLE=off</code> serves no console.</p>"
        f'<p>The API works without it: <a href="{escape(root)}/docs">documentation</a>.</p></main>',
        root,
    )


def not_at_root(root: str) -> bytes:
    return page(
        "No console here",
        '<main class="small"><h1>The console is not served below a path</h1>'
        f"<p>This application is mounted at <code>{escape(root)}</code>. The console needs a host of its own: run "
        "<code>ficha serve</code> on the same database.</p>"
        f'<p>The API works here: <a href="{escape(root)}/docs">documentation</a>.</p></main>',
        root,
    )
