"""Which release of Ficha this is, and which build of it."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__version__ = "0.1.0"
"""The release. `pyproject.toml` reads it from here."""


@cache
def build() -> str:
    """The release and a digest of its code, such as 0.1.0+5d41402a: the same in two processes only if their code is."""
    code = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        code.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return f"{__version__}+{code.hexdigest()[:8]}"
