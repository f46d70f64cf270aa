"""A handler that runs in a child process, which finds it by the name of this module."""

import logging
from typing import Any


def steps_twice(job: Any) -> None:
    """Its second step fails, and the handler does not mind."""
    job.step("first", int)
    try:
        job.step("second", int, "no number")
    except ValueError:
        logging.getLogger("theirs").warning("from a process")
