"""Whether a path lies on a network file system, where SQLite's shared memory and locks do not work.

SQLite does not detect this, and sooner or later corrupts the database there. The check reads only the kernel's table of
mounts, which is an argument, so that tests can try any machine.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..base import StoreError

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    {
        *("acfs", "afs", "beegfs", "ceph", "cifs", "coda", "gfs", "gfs2", "glusterfs"),
        *("gpfs", "lustre", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs"),
        *("pvfs2", "smb", "smb2", "smb3", "smbfs", "wekafs"),
    }
)
_NETWORK_FUSE = frozenset(
    {
        *("blobfuse", "blobfuse2", "ceph", "cephfs", "ceph-fuse", "davfs", "davfs2", "gcsfuse", "glusterfs"),
        *("goofys", "juicefs", "lizardfs", "mfs", "moosefs", "mount-s3", "mountpoint-s3", "rclone", "s3fs"),
        *("s3ql", "seaweedfs", "smbnetfs", "sshfs"),
    }
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def refuse_network(path: str) -> None:
    """Raises StoreError if the database at `path` would lie on a network file system."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return  # Not Linux: there is no such table.
    kind = filesystem_of(os.path.realpath(path), mounts)
    if is_network(kind):
        raise StoreError(
            f"{path} lies on a network file system ({kind}), where SQLite loses or corrupts data: "
            "put the file on a local disk, or use PostgreSQL"
        )


def filesystem_of(path: str, mounts: str) -> str:
    """The type of the file system that an absolute path without links lies on; '' if the table does not say."""
    best, kind = "", ""
    for line in mounts.splitlines():
        mount, _, source = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) < 5 or not source:
            continue
        point = _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), fields[4])
        # Of two mounts on one point, the later one hides the earlier.
        if len(point) >= len(best) and (path == point or path.startswith(point.rstrip("/") + "/")):
            best, kind = point, source.split(" ")[0]
    return kind


def is_network(kind: str) -> bool:
    """Whether a file system type, as the kernel names it, is a network file system."""
    family, _, program = kind.partition(".")
    return kind in _NETWORK or (family in ("fuse", "fuseblk") and program in _NETWORK_FUSE)
