"""What is computed: pictures upscaled by a small network in PyTorch, or a stand-in of the same shape without a GPU.

The bare loop and the handler make the same calls: `load` on each thread that will make them, then `model(numbers)` for
one group of pictures after the other.
"""

from __future__ import annotations

import importlib
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

PICTURES: Final = 256
"""Pictures in memory, which jobs name by their number."""
CHANNELS: Final = 64
SETUP_S: Final = 0.100
"""How long it takes to set the stand-in up on a thread."""

_LAUNCHED: Final = bytes(64 * 1024)
_STAND_IN: Final = threading.Lock()
"""Held by the call that the stand-in is busy with."""

Model = Callable[[Sequence[int]], list[float]]


@dataclass(frozen=True)
class Shape:
    """Calls of one shape, and the part of the bare loop's rate that a worker must reach with them.

    calls_held: as many groups of jobs the worker holds: that under way, and those claimed ahead. Short calls need more,
        because a claim takes as long for them as for long ones.
    """

    name: str
    batch: int
    target: float
    calls_held: int
    load: Callable[[], Model]


def torch_shapes(layers: int) -> list[Shape]:
    return [
        Shape("128 px", 32, 0.90, 8, lambda: Upscaler(128, 32, layers)),
        Shape("512 px", 16, 0.95, 4, lambda: Upscaler(512, 16, layers)),
    ]


def stand_in_shapes() -> list[Shape]:
    return [
        Shape("10 ms", 16, 0.95, 8, lambda: stand_in(0.010, 1)),
        Shape("5 ms, 40 launches", 32, 0.90, 8, lambda: stand_in(0.005, 40)),
    ]


def stand_in(call_s: float, launches: int) -> Model:
    """A device that is busy for so long with each call, and with one call at a time. First each part of a call is
    launched: as an operation of PyTorch does, that releases the GIL and must get it back."""
    time.sleep(SETUP_S)

    def call(numbers: Sequence[int]) -> list[float]:
        for _ in range(launches):
            zlib.crc32(_LAUNCHED)
        with _STAND_IN:
            time.sleep(call_s)
        return [float(number) for number in numbers]

    return call


def gpu_name() -> str | None:
    """The GPU that PyTorch sees, if there is one."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    return f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}" if torch.cuda.is_available() else None


class Upscaler:
    """Doubles the size of pictures, in half precision. Pictures come from memory and go back there."""

    def __init__(self, pixels: int, batch: int, layers: int) -> None:
        torch: Any = importlib.import_module("torch")
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(1)
        self._torch = torch
        self._pictures = torch.randint(0, 256, (PICTURES, 3, pixels, pixels), dtype=torch.uint8)
        nn = torch.nn
        inner = [part for _ in range(layers) for part in (nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU())]
        first, last = nn.Conv2d(3, CHANNELS, 3, padding=1), nn.Conv2d(CHANNELS, 12, 3, padding=1)
        self._network = nn.Sequential(first, nn.ReLU(), *inner, last, nn.PixelShuffle(2))
        self._network = self._network.half().cuda().to(memory_format=torch.channels_last).eval()
        for _ in range(5):
            # The first calls make this thread's handles and choose its algorithms.
            self(range(batch))

    def __call__(self, numbers: Sequence[int]) -> list[float]:
        torch = self._torch
        with torch.inference_mode():
            pictures = self._pictures[list(numbers)].cuda()
            pictures = pictures.half().div_(255).contiguous(memory_format=torch.channels_last)
            upscaled = self._network(pictures).clamp_(0, 1).mul_(255).to(torch.uint8).cpu()
            return [float(picture[0, 0, 0]) for picture in upscaled]
