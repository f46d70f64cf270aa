"""The four built-in kinds of provider, each set up for the simulator, with a call that it understands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ficha.outbound import Outbound, OutboundError
from ficha.providers import (
    CallbackFields,
    Fal,
    GenericProvider,
    HmacSignature,
    Provider,
    ProviderCall,
    ProviderHttp,
    ReceivedCallback,
    Replicate,
    RequestTemplate,
    RunningHub,
    StateFields,
)
from tests.support.provider_simulator import Received, Simulated


class Kind(NamedTuple):
    """name: as the simulator calls it. of: the provider. call: an upscale of a picture."""

    name: str
    of: Callable[..., Provider]
    call: Callable[..., ProviderCall]


def replicate(simulator: Simulated, token: str = "key", **options: Any) -> Replicate:  # noqa: S107 (any key will do)
    return Replicate(token, base_url=simulator.replicate, **options)


def fal(simulator: Simulated, token: str = "key", **options: Any) -> Fal:  # noqa: S107
    return Fal(token, base_url=simulator.fal, keys_url=f"{simulator.fal}/.well-known/jwks.json", **options)


def runninghub(simulator: Simulated, token: str = "key", **options: Any) -> RunningHub:  # noqa: S107
    return RunningHub(token, base_url=simulator.runninghub, **options)


def plain(simulator: Simulated, token: str = "key", signed: bool = True, **options: Any) -> GenericProvider:  # noqa: S107
    secret = simulator.request("GET", "/plain/secret", headers={"Authorization": "Bearer key"}).json()["secret"]
    signature = HmacSignature(header="X-Signature", secret=secret, prefix="sha256=")
    return GenericProvider(
        "plain",
        headers={"authorization": f"Bearer {token}"},
        start=RequestTemplate(
            url=f"{simulator.plain}/tasks",
            headers={"idempotency-key": "{key}"},
            body={"model": "{target}", "input": "{input}", "callback_url": "{callback_url}"},
        ),
        ref="task.id",
        status=RequestTemplate(method="GET", url=simulator.plain + "/tasks/{ref}"),
        cancel=RequestTemplate(method="DELETE", url=simulator.plain + "/tasks/{ref}"),
        fields=StateFields(
            state="task.state",
            working=("queued", "working"),
            succeeded=("succeeded",),
            failed=("failed", "cancelled"),
            error="task.error.message",
            user_error="task.error.message",
            output="task.result",
            files="task.result.files.*.href",
            progress="task.progress",
            cost="task.price.amount",
        ),
        callback=CallbackFields(ref="task.id", signature=signature if signed else None),
        **options,
    )


def upscale(image: str, **given: Any) -> ProviderCall:
    return ProviderCall("acme/image-upscaler", {"image": image, **given})


def upscale_node(image: str, **given: Any) -> ProviderCall:
    return ProviderCall("image-upscaler", {f"10.{name}": value for name, value in {"image": image, **given}.items()})


KINDS = {
    kind.name: kind
    for kind in (
        Kind("replicate", replicate, upscale),
        Kind("fal", fal, upscale),
        Kind("runninghub", runninghub, upscale_node),
        Kind("plain", plain, upscale),
    )
}


def http_over(outbound: Outbound, **options: Any) -> ProviderHttp:
    return ProviderHttp(outbound, errors=(OutboundError,), **options)


async def started(
    provider: Provider, http: ProviderHttp, call: ProviderCall, url: str | None = None, key: str = "j:0"
) -> str:
    return await provider.start(http, call, callback_url=url, key=key, correlation_id=None)


def task_of(ref: str) -> str:
    """The simulator's name for what a reference names."""
    return ref.rpartition("/")[2]


def as_callback(received: Received, *, later_s: float = 0.0) -> ReceivedCallback:
    """A call-back as the server hands it on."""
    headers = {name.lower(): value for name, value in received.headers.items()}
    return ReceivedCallback(headers=headers, body=received.body, received_at=time.time() + later_s)
