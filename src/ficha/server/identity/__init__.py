"""Authentication: API keys, JWTs, job tokens and sign-ins. Each route decides what its callers may do."""

from .authenticator import Identity
from .callers import Caller, Scope
from .settings import IdentitySettings

__all__ = ["Caller", "Identity", "IdentitySettings", "Scope"]
