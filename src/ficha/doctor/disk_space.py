"""The free space of a disk. Without it nothing works."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from .findings import DoctorLimits, Finding, Severity, size

FAR_BELOW = 10
"""Free space that is this many times less than a limit is critical."""


def free_space(group: str, path: str, what: str, limits: DoctorLimits) -> Iterator[Finding]:
    """A finding if the disk under the path is nearly full."""
    usage = shutil.disk_usage(path)
    share = usage.free / usage.total
    if usage.free >= limits.free_bytes or share >= limits.free_share:
        return
    is_worst = usage.free * FAR_BELOW < limits.free_bytes or share * FAR_BELOW < limits.free_share
    severity: Severity = "critical" if is_worst else "warning"
    yield Finding(
        group,
        "DISK_NEARLY_FULL",
        severity,
        f"The disk of {what} ({path}) has {size(usage.free)} left of {size(usage.total)}.",
        "Make room or enlarge it. While it is full, nothing is accepted and no job can end.",
    )
