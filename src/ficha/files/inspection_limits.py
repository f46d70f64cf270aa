"""The limits of what is looked into. Apart from the looking itself, which needs an extra, so that any application can
declare them."""

from __future__ import annotations

from msgspec import Struct


class InspectionLimits(Struct, frozen=True):
    """How large a file may become when it is decoded, and what its decoding may take.

    pixels: of one frame of an image. frames, total_pixels: of an animated image. archive_bytes: what an archive unpacks
    to, with all that is inside of archives in it. archive_ratio: how many times its size that is, beyond the first
    ratio_free_bytes. archive_depth: 1 is an archive, 2 one with archives in it. inner_archive_bytes: the largest zip
    inside of an archive. memory_bytes, cpu_s, timeout_s: of the process that decodes. unreadable_archives: whether
    archives are taken that cannot be looked into (7z, rar, zstd and others).
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
    unreadable_archives: bool = False
