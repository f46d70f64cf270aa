"""Calls inside a caller's own PostgreSQL transaction: which connections are accepted, and what an error does to them.

No driver, and no library around one, is imported here unless the caller passed an object of it.
"""

from .drivers import driver_connection
from .savepoint import savepoint

__all__ = ["driver_connection", "savepoint"]
