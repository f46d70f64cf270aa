"""External AI providers: what one must do (`base.py`), and those that are built in."""

from .base import (
    BadCallback,
    Breaker,
    Provider,
    ProviderBusy,
    ProviderCall,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderResult,
    ProviderStatus,
    ProviderSucceeded,
    ProviderWorking,
    ReceivedCallback,
    RemoteFile,
)

__all__ = [
    "BadCallback",
    "Breaker",
    "Provider",
    "ProviderBusy",
    "ProviderCall",
    "ProviderError",
    "ProviderFailed",
    "ProviderHttp",
    "ProviderResult",
    "ProviderStatus",
    "ProviderSucceeded",
    "ProviderWorking",
    "ReceivedCallback",
    "RemoteFile",
]
