"""Inside a caller's own PostgreSQL transaction: which connections are taken, and what an error leaves of them.

Nothing here is imported from a driver, or from a library around one, unless an object of theirs was handed in.
"""

from .drivers import driver_connection
from .savepoint import savepoint

__all__ = ["driver_connection", "savepoint"]
