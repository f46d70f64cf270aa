"""What the tests of the worker share: fresh databases, and crews of real worker processes on them."""

from tests.app.conftest import url, world
from tests.worker.worker_processes import sqlite_workers, workers

__all__ = ["sqlite_workers", "url", "workers", "world"]
