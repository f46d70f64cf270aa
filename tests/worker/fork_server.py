"""Starts worker processes from one that has imported everything already: the same command, without the time it takes.

It reads one JSON line for each worker, `[argv, environment, log]`, and answers with its process id.
"""

import json
import os
import signal
import sys

from ficha import app as _app  # noqa: F401 (imported for those that are born here)
from ficha.cli import main
from ficha.store import postgres as _postgres  # noqa: F401
from ficha.store import sqlite as _sqlite  # noqa: F401
from tests.worker import application as _application  # noqa: F401


def bear(argv: list[str], environment: dict[str, str], log: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.update(environment)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, theirs in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(ours, theirs)
    sys.argv = argv
    main()


def serve() -> None:
    # Nobody asks how they ended, so nothing is kept of those that have.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            try:
                bear(*json.loads(line))
            finally:
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    serve()
