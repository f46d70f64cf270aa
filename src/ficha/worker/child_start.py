"""Starts the interpreter of a child process, with only those environment variables that it needs.

A worker's environment holds its secrets: the database's URL, keys of other services. A handler in a process of its own,
and all that it starts, gets none of them unless its tool names them. The filter works where the process is started, so
the rest is in no copy that the process could read.
"""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterable, Mapping
from multiprocessing import popen_spawn_posix, reduction, resource_tracker, spawn, util
from multiprocessing.context import SpawnProcess, set_spawning_popen
from typing import Any, Final

from ..store.database_url import ABSENT

ALWAYS: Final = (
    *("HOME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "TZ", "USER"),
    *("DYLD_*", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON*", "SSL_CERT_DIR", "SSL_CERT_FILE", "VIRTUAL_ENV"),
    *("CUDA_*", "GOMP_*", "HIP_*", "HSA_*", "KMP_*", "MALLOC_*", "MKL_*", "NUMEXPR_*", "NVIDIA_*", "OMP_*"),
    *("OPENBLAS_*", "ROCR_*"),
)
"""The variables that every child gets: those of the system, of Python, and of devices and number libraries. A name that
ends in * stands for every variable that begins so."""


def environment_for(names: Iterable[str], source: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that a child gets if its tool names these variables."""
    wanted = (*ALWAYS, *names)
    whole = {name for name in wanted if not name.endswith("*")}
    beginnings = tuple(name[:-1] for name in wanted if name.endswith("*"))
    given = {name: value for name, value in source.items() if name in whole or name.startswith(beginnings)}
    return {"FICHA_DATABASE_URL": ABSENT} | given


class InterpreterProcess(SpawnProcess):
    """A process of multiprocessing's spawn method with an environment of its own."""

    def __init__(self, environment: Mapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self._environment = dict(environment)

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _Start(process_obj)


class _Start(popen_spawn_posix.Popen):
    def _launch(self, process_obj: Any) -> None:
        """Does what multiprocessing's own method does, which accepts no environment."""
        tracker = resource_tracker.getfd()
        assert tracker is not None
        text = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(spawn.get_preparation_data(process_obj._name), text)
            reduction.dump(process_obj, text)
        finally:
            set_spawning_popen(None)
        ended, ends = os.pipe()
        read, write = os.pipe()
        # Closes these also if the start fails.
        self.finalizer = util.Finalize(self, _close, (ended, write))
        try:
            command = spawn.get_command_line(tracker_fd=tracker, pipe_handle=read)
            process = subprocess.Popen(  # noqa: S603 (this interpreter)
                command,
                executable=spawn.get_executable(),
                env=process_obj._environment,
                pass_fds=(*self._fds, tracker, read, ends),  # type: ignore[attr-defined]
                restore_signals=False,
            )
        finally:
            os.close(read)
            os.close(ends)
        self.pid, self.sentinel = process.pid, ended
        process.returncode = 0  # It is multiprocessing that waits for the process.
        with open(write, "wb", closefd=False) as file:
            file.write(text.getbuffer())


def _close(*files: int) -> None:
    for file in files:
        os.close(file)
