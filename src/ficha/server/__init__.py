"""HTTP: the operations for callers in any language. Routes are thin; each names who may call it."""

from ..extras import needs_extra

with needs_extra("server"):
    from ..environment import SettingError
    from .application import asgi
    from .settings import Settings

__all__ = ["SettingError", "Settings", "asgi"]
