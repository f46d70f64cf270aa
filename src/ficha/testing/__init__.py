"""For tests: a clock that is moved by hand, and the suite that every store passes.

Nothing here imports pytest, so that applications can use the clock without it.
"""

from .clock import ManualClock
from .conformance import StoreConformance
from .driver import Driver

__all__ = ["Driver", "ManualClock", "StoreConformance"]
