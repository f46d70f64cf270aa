"""How much the measure does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Size:
    """
    rate, lanes: submits a second of the honest accounts together, and the connections that they go over.
    warm_up_s, alone_s, attack_s: how long they submit before anything counts, alone, and beside each attack.
    pause_s: between two attacks, for what the last one left behind.
    """

    rate: int = 150
    lanes: int = 32
    warm_up_s: float = 3.0
    alone_s: float = 5.0
    attack_s: float = 5.0
    pause_s: float = 1.0


QUICK: Final = Size(rate=40, lanes=8, warm_up_s=0.2, alone_s=0.5, attack_s=0.5, pause_s=0.1)
"""A smoke run: everything happens, and no figure means anything."""
