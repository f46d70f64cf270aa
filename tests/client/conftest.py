"""The clients talk to the same real servers as the tests of the server do."""

from tests.server.conftest import name, server, server_on_postgresql, server_on_sqlite

__all__ = ["name", "server", "server_on_postgresql", "server_on_sqlite"]
