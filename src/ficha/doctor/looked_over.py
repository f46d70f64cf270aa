"""What a check gets: the database, the application, the limits, and where it writes facts."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from ..app import Ficha
from .database import Looking
from .findings import DoctorLimits

D = TypeVar("D", bound=Looking, covariant=True)


class LookedOver(Struct, Generic[D], frozen=True):
    database: D
    app: Ficha
    limits: DoctorLimits
    facts: dict[str, str | int | float]
