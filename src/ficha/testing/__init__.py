"""For tests of applications: a job for a handler that is called directly, an application on a memory store with a clock
that tests move, a provider that does what the test says, a stand-in for a transaction of your own, and
(`ficha.testing.pytest_fixtures`) fixtures. For tests of stores and of providers: their conformance suites.

Nothing here but the fixtures imports pytest.
"""

from .clock import ManualClock
from .conformance import StoreConformance
from .driver import Driver
from .fake_job import FakeJobContext
from .provider_conformance import ProviderConformance, ProviderTrial
from .sandbox import Sandbox
from .scripted_provider import ScriptedProvider, ScriptedStart
from .transaction import FakeTransaction

__all__ = [
    "Driver",
    "FakeJobContext",
    "FakeTransaction",
    "ManualClock",
    "ProviderConformance",
    "ProviderTrial",
    "Sandbox",
    "ScriptedProvider",
    "ScriptedStart",
    "StoreConformance",
]
