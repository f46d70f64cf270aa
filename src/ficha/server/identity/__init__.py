"""Authentication: API keys, JWTs and job tokens. Each route decides what its callers may do."""

from .authenticator import Identity
from .callers import Caller, Scope
from .settings import IdentitySettings

__all__ = ["Caller", "Identity", "IdentitySettings", "Scope"]
