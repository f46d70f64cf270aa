"""`ficha openapi`: the description of the HTTP API, for those who make clients of it."""

from __future__ import annotations


def openapi() -> None:
    """Print the OpenAPI document of the HTTP API."""
    import json

    from ..app import Ficha
    from ..server import Settings, asgi
    from .output import text

    # The document is the same for every application: what its tools take is told by GET /api/tools.
    text(json.dumps(asgi(Ficha("memory:"), Settings.passing()).openapi(), indent=1) + "\n")
