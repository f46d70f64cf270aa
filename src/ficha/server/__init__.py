"""HTTP: the operations for callers in any language. Routes are thin; who may call is said beside each of them."""

from .application import asgi
from .settings import SettingError, Settings

__all__ = ["SettingError", "Settings", "asgi"]
