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
from .fal import Fal
from .generic import CallbackFields, GenericProvider, RequestTemplate, StateFields
from .replicate import Replicate
from .runninghub import RunningHub
from .signatures import HmacSignature, StandardSignature

__all__ = [
    "BadCallback",
    "Breaker",
    "CallbackFields",
    "Fal",
    "GenericProvider",
    "HmacSignature",
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
    "Replicate",
    "RequestTemplate",
    "RunningHub",
    "StandardSignature",
    "StateFields",
]
