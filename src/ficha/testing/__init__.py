"""For tests: a clock that tests set, and the conformance suite of stores.

Nothing here imports pytest, so applications can use the clock without it.
"""

from .clock import ManualClock
from .conformance import StoreConformance
from .driver import Driver

__all__ = ["Driver", "ManualClock", "StoreConformance"]
