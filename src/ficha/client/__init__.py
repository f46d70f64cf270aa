"""A Ficha server from Python: the operations of the in-process face, over HTTP, with and without `await`.

`Client` and `AsyncClient` are two drivers of the same flows: what is sent, what is tried again and what is never tried
again is written once. Nothing here opens a database.
"""

from ..engine.views import Wait
from .clients import AsyncClient, Client
from .errors import BadAnswer, ServerError, Unreachable
from .jobs import JobToken, Tool
from .retries import Retries
from .watching import Happening

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "Client",
    "Happening",
    "JobToken",
    "Retries",
    "ServerError",
    "Tool",
    "Unreachable",
    "Wait",
]
