"""Who calls: API keys, JWTs and tokens of one job. What a caller may do is the routes' affair."""

from .authenticator import Identity
from .callers import Caller, Scope
from .job_tokens import JobToken
from .settings import IdentitySettings

__all__ = ["Caller", "Identity", "IdentitySettings", "JobToken", "Scope"]
