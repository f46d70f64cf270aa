"""All operations on an engine of their own, beside an application that may be open or not."""

from __future__ import annotations

from collections.abc import Mapping

from ..arguments import Limits
from ..engine.engine import Engine
from ..engine.queries import Queries
from ..tools import Tool
from .accounts import Accounts
from .batches import Batches
from .leases import Leases
from .operating import Operating


class Beside(Accounts, Batches, Leases, Operating):
    """What a thread or a command uses that must not share the application's engine."""

    def __init__(self, engine: Engine, *, tools: Mapping[str, Tool], limits: Limits, default_plan: str) -> None:
        self.tools = tools
        self.limits = limits
        self.default_plan = default_plan
        self._engine = engine
        self._queries = Queries(engine.store, engine.positions)

    @property
    def engine(self) -> Engine:
        return self._engine

    @property
    def queries(self) -> Queries:
        return self._queries
