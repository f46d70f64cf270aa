"""Loads the application at `module:attribute`, with a clear error for each way that can fail."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ..app import Ficha

DEFAULT_APP: Final = "app:app"
_NOT_USER_CODE: Final = ("<", str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"))
"""Prefixes of files that are not the user's code: the import machinery, Ficha, the standard library."""


class AppNotLoaded(Exception):
    """The application could not be loaded; the message says why and what to do."""


class Absent(AppNotLoaded):
    """There is no such application. (One that exists but fails is a plain `AppNotLoaded`.)"""


def load(path: str) -> Ficha:
    """The application at `module:attribute`, searched first in the current directory."""
    name, _, attribute = path.partition(":")
    if not name or not attribute or "/" in path or name.endswith(".py"):
        raise AppNotLoaded(f"{path!r} is not the place of an application; write module:attribute, such as shop:app")
    module = _imported(name)
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Absent(f"the module {name!r} has no {attribute!r}{_instead(module)}") from None
    if not isinstance(found, Ficha):
        raise Absent(f"{path} is {_a(found)}, not a Ficha{_instead(module)}")
    return found


def _imported(name: str) -> ModuleType:
    here = os.getcwd()
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)
    try:
        # What the module prints during its import is not the command's data; and if it calls `asgi()`, the command does
        # not serve that, so a missing FICHA_SECRET is none of its concern.
        with contextlib.redirect_stdout(sys.stderr), _server_log_off():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise Absent(f"there is no module {error.name!r} in {here} or among the installed packages") from None
        raise AppNotLoaded(_broken(name, error)) from error
    except SystemExit as error:
        raise AppNotLoaded(f"the module {name!r} exited during its import (exit {error.code})") from error
    except Exception as error:
        raise AppNotLoaded(_broken(name, error)) from error


@contextlib.contextmanager
def _server_log_off() -> Iterator[None]:
    server_log = logging.getLogger("ficha.server")
    before, server_log.disabled = server_log.disabled, True
    try:
        yield
    finally:
        server_log.disabled = before


def _broken(name: str, error: Exception) -> str:
    """The line of the user's code that failed, and the error."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_relative(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith(_NOT_USER_CODE) and "site-packages" not in f.filename]
    where = f"{_relative(theirs[-1].filename)}:{theirs[-1].lineno}" if theirs else f"the module {name!r}"
    return f"{where}: {type(error).__name__}: {error}"


def _relative(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def _instead(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Ficha)]
    return f"; there is {module.__name__}:{names[0]}" if names else ""


def _a(value: Any) -> str:
    kind = "class" if isinstance(value, type) else type(value).__name__
    return f"an {kind}" if kind[0] in "AEIOUaeiou" else f"a {kind}"
