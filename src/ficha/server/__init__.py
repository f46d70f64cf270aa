"""HTTP: the operations for callers in any language. Routes are thin; each names who may call it."""

from .application import asgi
from .settings import SettingError, Settings

__all__ = ["SettingError", "Settings", "asgi"]
