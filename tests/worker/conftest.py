"""What the tests of the worker share: fresh databases, and crews of real worker processes on them."""

from tests.app.conftest import database, url, world
from tests.worker.worker_processes import crew, lone_crew

__all__ = ["crew", "database", "lone_crew", "url", "world"]
