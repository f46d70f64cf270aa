"""The application of the soak as its server processes load it: that of the fault tests."""

import os
from pathlib import Path
from typing import Any

from tests.chaos.application import application
from tests.chaos.records import Record


def __getattr__(name: str) -> Any:
    if name == "app":
        record = Record(Path(os.environ["SOAK_FOLDER"]), f"server-{os.getpid()}", 0)
        return application(os.environ["FICHA_DATABASE_URL"], record)
    raise AttributeError(name)
