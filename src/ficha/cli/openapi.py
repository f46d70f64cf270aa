"""`ficha openapi`: prints the OpenAPI document, for making clients."""

from __future__ import annotations


def openapi() -> None:
    """Print the OpenAPI document of the HTTP API."""
    import json

    from ..app import Ficha
    from ..server import Settings, asgi
    from .output import text

    # The document is the same for every application: GET /api/tools has the schemas of its tools.
    text(json.dumps(asgi(Ficha("memory:"), Settings.passing()).openapi(), indent=1) + "\n")
