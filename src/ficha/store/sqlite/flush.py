"""Flushes a database file to the disk, apart from any checkpoint.

It uses the file handle of a connection, because closing any other handle of the same file would drop this process's
locks on it. It calls SQLite's C interface, whose layout is stable, because apsw holds the GIL while it flushes.
"""

from __future__ import annotations

import ctypes

import apsw


class _Methods(ctypes.Structure):
    """The beginning of `sqlite3_io_methods`."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("write", ctypes.c_void_p),
        ("truncate", ctypes.c_void_p),
        ("sync", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)),
    )


class _File(ctypes.Structure):
    """`sqlite3_file`."""

    _fields_ = (("methods", ctypes.POINTER(_Methods)),)


def flush(db: apsw.Connection) -> None:
    """Returns when everything that was written to the connection's database file is on the disk."""
    file = ctypes.POINTER(_File)()
    db.file_control("main", apsw.SQLITE_FCNTL_FILE_POINTER, ctypes.addressof(file))
    try:
        code = file.contents.methods.contents.sync(ctypes.addressof(file.contents), apsw.SQLITE_SYNC_NORMAL)
    except SystemError as error:
        # A file system written in Python raised an exception, which C code cannot pass on.
        raise apsw.IOError("the flush failed") from error
    if code != apsw.SQLITE_OK:
        raise apsw.exception_for(code)
