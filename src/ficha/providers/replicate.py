"""Replicate: predictions of models, versions and deployments; call-backs are signed by Standard Webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from .base import (
    WORDS_LENGTH,
    BadCallback,
    Provider,
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
from .json_paths import found, is_web_address, last_name, number_at, read_object, text_at, texts_in
from .options import check_options, credential, reference
from .signatures import NO_FIT, PublishedKeys, check_secret, fits_standard_webhook

BASE_URL: Final = "https://api.replicate.com/v1"
FILE_HOSTS: Final = ("replicate.delivery",)
OPTIONS: Final = {"cancel_after"}
MOST_FILES: Final = 100


class Replicate(Provider):
    """A provider for https://replicate.com.

    token: the API token. Defaults to REPLICATE_API_TOKEN.
    webhook_secret: the key of its call-backs (`whsec_…`). Defaults to asking Replicate for it.
    price_per_s: what a second of work costs you, in your currency: a number, or one per model. Defaults to no cost
        being recorded.
    file_hosts: hosts whose addresses in an output are files to be copied, also on hosts below them and on that of
        `base_url`. Defaults to replicate.delivery.
    base_url: the API's address.
    limits: `rate`, `at_once`, `timeout_s`, `poll_s` and `breaker`, as for every `Provider`.

    A call's target is `owner/model`, `owner/model:version`, a version, or `deployments/owner/name`. Its options:
    `cancel_after`, such as "5m", after which Replicate cancels by itself.
    """

    takes_keys = False
    signs_callbacks = True

    def __init__(
        self,
        token: str | None = None,
        *,
        name: str = "replicate",
        webhook_secret: str | None = None,
        price_per_s: float | Mapping[str, float] | None = None,
        file_hosts: tuple[str, ...] = FILE_HOSTS,
        base_url: str = BASE_URL,
        **limits: Any,
    ) -> None:
        super().__init__(name, **limits)
        self._token = credential(token, "REPLICATE_API_TOKEN", f"provider {name!r}: token")
        self._base_url = base_url.rstrip("/")
        self._price_per_s = price_per_s
        self._file_hosts = (*file_hosts, urlsplit(base_url).hostname or "")
        self._secret = webhook_secret
        if webhook_secret is not None:
            check_secret(webhook_secret)
        self._secrets = PublishedKeys(self._published_secret)

    async def start(
        self,
        http: ProviderHttp,
        call: ProviderCall,
        *,
        callback_url: str | None,
        key: str,
        correlation_id: str | None,
    ) -> str:
        check_options(call, OPTIONS)
        body: dict[str, Any] = {"input": call.input}
        if callback_url is not None:
            body |= {"webhook": callback_url, "webhook_events_filter": ["completed"]}
        path, version = _path(call.target)
        if version is not None:
            body["version"] = version
        headers = {**self._headers(), "idempotency-key": key}
        if "cancel_after" in call.options:
            headers["cancel-after"] = str(call.options["cancel_after"])
        answer = await http.json("POST", f"{self._base_url}{path}", headers=headers, json=body)
        return reference(text_at(answer, "id"), "Replicate")

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        return self._status(await http.json("GET", self._address(ref), headers=self._headers()))

    async def result(self, http: ProviderHttp, ref: str) -> ProviderResult:
        match await self.status(http, ref):
            case ProviderSucceeded(ProviderResult() as result):
                return result
            case other:
                raise ProviderError(f"the prediction has no result: {other}", is_fault=False)

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        await http.request("POST", f"{self._address(ref)}/cancel", headers=self._headers())

    async def verify(self, http: ProviderHttp, callback: ReceivedCallback) -> ProviderStatus | None:
        await self._check(http, callback)
        try:
            return self._status(read_object(callback.body))
        except (ValueError, ProviderError) as error:
            raise BadCallback(f"its body is no prediction: {error}") from error

    def refs(self, callback: ReceivedCallback) -> str | None:
        try:
            return text_at(read_object(callback.body), "id")
        except ValueError:
            return None

    async def _check(self, http: ProviderHttp, callback: ReceivedCallback) -> None:
        # Without a secret nothing fits, but a malformed call-back is refused here, before the secret is fetched.
        if fits_standard_webhook(callback, () if self._secret is None else (self._secret,)):
            return
        if self._secret is not None:
            raise BadCallback(NO_FIT)
        await self._secrets.check(http, lambda secret: fits_standard_webhook(callback, (secret,)))

    async def _published_secret(self, http: ProviderHttp) -> str:
        answer = await http.json("GET", f"{self._base_url}/webhooks/default/secret", headers=self._headers())
        secret = text_at(answer, "key") or ""
        try:
            check_secret(secret)
        except ValueError as error:
            raise ProviderError("Replicate's answer has no secret of its call-backs") from error
        return secret

    def _status(self, prediction: Any) -> ProviderStatus:
        cost = self._cost(prediction)
        match text_at(prediction, "status"):
            case "starting" | "processing":
                return ProviderWorking()
            case "succeeded" if found(prediction, "data_removed") is True:
                return ProviderFailed("Replicate has deleted the result already", final=False, cost=cost)
            case "succeeded":
                output = prediction.get("output")
                return ProviderSucceeded(ProviderResult(output, self._files(output), cost))
            case "failed":
                return ProviderFailed(_words(prediction, "the prediction failed"), cost=cost)
            case "canceled":
                return ProviderFailed(_words(prediction, "the prediction was canceled"), cost=cost)
            case "aborted":  # its deadline came before its start; it is not charged
                return ProviderFailed(_words(prediction, "the prediction was aborted"), final=False)
            case other:
                raise ProviderError(f"Replicate's answer has no state that is known: {other!r}")

    def _files(self, output: Any) -> tuple[RemoteFile, ...]:
        """Addresses in the output that are Replicate's own. Others are text that a model wrote."""
        urls = dict.fromkeys(url for url in texts_in(output) if is_web_address(url) and self._is_ours(url))
        return tuple(RemoteFile(url, last_name(url)) for url in list(urls)[:MOST_FILES])

    def _is_ours(self, url: str) -> bool:
        host = urlsplit(url).hostname or ""
        return any(host == one or host.endswith(f".{one}") for one in self._file_hosts if one)

    def _cost(self, prediction: Any) -> float | None:
        price = self._price_per_s
        if isinstance(price, Mapping):
            price = price.get(text_at(prediction, "model") or "")
        work_s = number_at(prediction, "metrics.predict_time")
        return None if price is None or work_s is None else price * work_s

    def _address(self, ref: str) -> str:
        return f"{self._base_url}/predictions/{quote(ref, safe='')}"

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}


def _words(prediction: Any, otherwise: str) -> str:
    return (text_at(prediction, "error") or otherwise)[:WORDS_LENGTH]


def _path(target: str) -> tuple[str, str | None]:
    """The path that starts a target, and the version that the body names."""
    model, colon, version = target.partition(":")
    parts = model.split("/")
    if all(parts) and colon and version:
        return "/predictions", version
    match parts:
        case [name] if name and not colon:
            return "/predictions", name
        case ["deployments", owner, name] if owner and name and not colon:
            return f"/deployments/{quote(owner, safe='')}/{quote(name, safe='')}/predictions", None
        case [owner, name] if owner and name and not colon:
            return f"/models/{quote(owner, safe='')}/{quote(name, safe='')}/predictions", None
    words = f"target {target!r} is none of owner/model, owner/model:version, a version, deployments/owner/name"
    raise ProviderError(words, final=True, was_sent=False, is_fault=False)
