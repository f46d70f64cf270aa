"""For tests of applications: a job for a handler that is called directly, an application on a memory store with a clock
that tests move, a stand-in for a transaction of your own, and (`ficha.testing.pytest_fixtures`) fixtures. For tests of
stores: the conformance suite.

Nothing here but the fixtures imports pytest.
"""

from .clock import ManualClock
from .conformance import StoreConformance
from .driver import Driver
from .fake_job import FakeJobContext
from .sandbox import Sandbox
from .transaction import FakeTransaction

__all__ = ["Driver", "FakeJobContext", "FakeTransaction", "ManualClock", "Sandbox", "StoreConformance"]
