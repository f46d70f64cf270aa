"""The limits of file inspection. They are separate from the inspection itself, which needs an extra, so that any
application can declare them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

LEAST_MEMORY: Final = 268_435_456
"""The memory that a process needs before it decodes anything, and a little more."""


class InspectionLimits(Struct, frozen=True):
    """How large a file may become when it is decoded, and how many resources that may take.

    pixels: of one frame of an image. Defaults to 64,000,000.
    frames: of an animated image. Defaults to 1,000.
    total_pixels: of all its frames together. Defaults to 500,000,000.
    archive_bytes: what an archive unpacks to, with all that is in archives inside of it. Defaults to 1 GiB.
    archive_ratio: how many times the file's own size that may be. Defaults to 100.
    ratio_free_bytes: how many bytes may be unpacked whatever the ratio. Defaults to 10 MiB.
    archive_entries: of an archive and of those inside of it. Defaults to 10,000.
    archive_depth: 1 is an archive, 2 one with archives in it. Defaults to 3.
    inner_archive_bytes: the largest zip inside of an archive. Defaults to 64 MiB.
    memory_bytes: of the process that decodes. At least 256 MiB; defaults to 1 GiB.
    cpu_s: its processor time for one file. Defaults to 20.
    timeout_s: how long it may take for one file. Defaults to 60.
    at_once: files that one server or worker inspects at a time, one per account. Defaults to 2.
    wait_s: how long a file waits for its turn; then it is refused, to be sent again. Defaults to 60.
    unreadable_archives: whether archives that cannot be inspected (7z, rar, zstd and others) are accepted. Defaults to
        False.
    """

    pixels: int = 64_000_000
    frames: int = 1_000
    total_pixels: int = 500_000_000
    archive_bytes: int = 1_073_741_824
    archive_ratio: int = 100
    ratio_free_bytes: int = 10_485_760
    archive_entries: int = 10_000
    archive_depth: int = 3
    inner_archive_bytes: int = 67_108_864
    memory_bytes: int = 1_073_741_824
    cpu_s: int = 20
    timeout_s: float = 60.0
    at_once: int = 2
    wait_s: float = 60.0
    unreadable_archives: bool = False

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"InspectionLimits.{name} must not be below zero, and is {value}")
        if self.at_once < 1:
            raise ValueError("InspectionLimits.at_once must be 1 or more")
        if self.memory_bytes < LEAST_MEMORY:
            raise ValueError(f"InspectionLimits.memory_bytes must be {LEAST_MEMORY} or more: a decoder needs so much")
