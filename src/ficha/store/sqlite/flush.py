"""Flushes a database file to the disk, apart from any checkpoint.

It goes through the handle of a connection: closing another one of the same file would take away this process's locks on
it. And it goes by SQLite's C interface, whose layout is fixed for good: while apsw's flushes, no other thread runs.
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
        # A file system that is written in Python has raised something, and C code cannot pass that on.
        raise apsw.IOError("the flush failed") from error
    if code != apsw.SQLITE_OK:
        raise apsw.exception_for(code)
