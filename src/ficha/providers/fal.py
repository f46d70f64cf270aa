"""fal: the queue of its models; call-backs are signed with ed25519, by keys that fal publishes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

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
    words_of,
)
from .json_paths import is_web_address, last_name, number_at, read_object, text_at
from .options import check_options, credential, reference
from .signatures import PublishedKeys, ed25519_keys, fits_fal

BASE_URL: Final = "https://queue.fal.run"
KEYS_URL: Final = "https://rest.fal.ai/.well-known/jwks.json"
OPTIONS: Final = {"priority", "timeout_s", "keep_s"}
MOST_FILES: Final = 100
MOST_DEPTH: Final = 6
ITS_OWN: Final = frozenset({400, 406, 409, 410, 413, 415, 422, 499})
"""Statuses of a result's request that mean that the model refused or failed. Others are about the request itself."""
_TARGET: Final = re.compile(r"[\w.-]+(/[\w.-]+)+", re.ASCII)
_ID: Final = re.compile(r"[\w-]{1,100}", re.ASCII)


class Fal(Provider):
    """A provider for https://fal.ai.

    api_key: the API key. Defaults to FAL_KEY.
    price_per_s: what a second of a model's work costs you, in your currency. Call-backs do not tell the duration, so
        with a price the state is asked for after each. Defaults to no cost being recorded.
    base_url, keys_url: the addresses of the queue and of the keys of its call-backs.
    limits: `rate`, `at_once`, `timeout_s`, `poll_s` and `breaker`, as for every `Provider`.

    A call's target is a model, such as `fal-ai/flux/dev`. Its options: `priority` ("low" or "normal"), `timeout_s` (how
    long fal may take to start it), `keep_s` (how long fal keeps the result).
    """

    takes_keys = False
    signs_callbacks = True

    def __init__(
        self,
        api_key: str | None = None,
        *,
        name: str = "fal",
        price_per_s: float | None = None,
        base_url: str = BASE_URL,
        keys_url: str = KEYS_URL,
        **limits: Any,
    ) -> None:
        super().__init__(name, **limits)
        self._api_key = credential(api_key, "FAL_KEY", f"provider {name!r}: api_key")
        self._price_per_s = price_per_s
        self._base_url = base_url.rstrip("/")
        self._keys_url = keys_url
        self._keys = PublishedKeys(self._published_keys)

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
        if _TARGET.fullmatch(call.target) is None or ".." in call.target:
            words = f"target {call.target!r} is no model of fal, such as fal-ai/flux/dev"
            raise ProviderError(words, final=True, was_sent=False, is_fault=False)
        url = f"{self._base_url}/{call.target}"
        if callback_url is not None:
            url += "?" + urlencode({"fal_webhook": callback_url})
        headers = {**self._headers(), "idempotency-key": key, **_headers_of(call)}
        answer = await http.json("POST", url, headers=headers, json=call.input)
        request_id = text_at(answer, "request_id")
        ref = f"{self._app(call.target, answer)}/requests/{request_id}"
        return reference(ref if request_id is not None and _ID.fullmatch(request_id) else None, "fal")

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        answer = await http.json("GET", f"{self._address(ref)}/status", headers=self._headers())
        match text_at(answer, "status"):
            case "IN_QUEUE":
                position = number_at(answer, "queue_position")
                return ProviderWorking(position=None if position is None else int(position))
            case "IN_PROGRESS":
                return ProviderWorking()
            case "COMPLETED":
                work_s = number_at(answer, "metrics.inference_time")
                cost = None if self._price_per_s is None or work_s is None else self._price_per_s * work_s
                return await self._ended(http, ref, answer, cost)
            case other:
                raise ProviderError(f"fal's answer has no state that is known: {other!r}")

    async def result(self, http: ProviderHttp, ref: str) -> ProviderResult:
        return _result(await http.json("GET", self._address(ref), headers=self._headers()))

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        try:
            await http.request("PUT", f"{self._address(ref)}/cancel", headers=self._headers())
        except ProviderError as error:
            # A request that has ended already, or is unknown, cannot be cancelled.
            if error.answer is None or error.answer.status not in (400, 404):
                raise

    async def verify(self, http: ProviderHttp, callback: ReceivedCallback) -> ProviderStatus | None:
        fits_fal(callback, ())  # refuses what is malformed before fal is asked for its keys
        await self._keys.check(http, lambda keys: fits_fal(callback, keys))
        try:
            body = read_object(callback.body)
        except ValueError as error:
            raise BadCallback(f"its body is malformed: {error}") from error
        if text_at(body, "request_id") != callback.headers.get("x-fal-webhook-request-id"):
            raise BadCallback("its body is about another request than its signature")
        match text_at(body, "status"):
            case "OK" if self._price_per_s is not None or text_at(body, "payload_error") is not None:
                return None
            case "OK":
                return ProviderSucceeded(_result(body.get("payload")))
            case "ERROR":
                words = words_of(msgspec.json.encode(body.get("payload"))) or text_at(body, "error") or "it failed"
                return ProviderFailed(words[:WORDS_LENGTH], final=_is_final(body.get("payload")))
            case _:
                raise BadCallback("its body has no status that is known")

    def refs(self, callback: ReceivedCallback) -> str | None:
        """Call-backs name the request without its model."""
        try:
            return text_at(read_object(callback.body), "request_id")
        except ValueError:
            return None

    def full_ref(self, name: str, target: str) -> str:
        return f"{self._app(target, None)}/requests/{name}"

    async def _ended(self, http: ProviderHttp, ref: str, status: Any, cost: float | None) -> ProviderStatus:
        """How a completed request ended, which only its result tells."""
        if (words := text_at(status, "error")) is not None:
            return ProviderFailed(words[:WORDS_LENGTH], final=_is_final(status), cost=cost)
        try:
            answer = await http.json("GET", self._address(ref), headers=self._headers())
        except ProviderError as error:
            refused = error.answer
            if refused is None or not (refused.status in ITS_OWN or "x-fal-error-type" in refused.headers):
                raise
            words = words_of(refused.body) or f"the request failed with status {refused.status}"
            is_final = refused.status < 500 or _is_final(_parsed(refused.body))
            return ProviderFailed(words, final=is_final, cost=cost)
        result = _result(answer)
        return ProviderSucceeded(ProviderResult(result.output, result.files, cost))

    async def _published_keys(self, http: ProviderHttp) -> tuple[bytes, ...]:
        return ed25519_keys(await http.json("GET", self._keys_url))

    def _app(self, target: str, answer: Any) -> str:
        """The part of the model's name that the addresses of a request contain; fal's answer shows it."""
        path = (text_at(answer, "response_url") or "").removeprefix(self._base_url + "/").partition("/requests/")[0]
        is_path = _TARGET.fullmatch(path) is not None and ".." not in path and target.startswith(path)
        return path if is_path else "/".join(target.split("/")[:2])

    def _address(self, ref: str) -> str:
        return f"{self._base_url}/{quote(ref)}"

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Key {self._api_key}"}


def _headers_of(call: ProviderCall) -> dict[str, str]:
    options = call.options
    headers = {}
    if "priority" in options:
        headers["x-fal-queue-priority"] = str(options["priority"])
    if "timeout_s" in options:
        headers["x-fal-request-timeout"] = str(options["timeout_s"])
    if "keep_s" in options:
        kept = {"expiration_duration_seconds": options["keep_s"]}
        headers["x-fal-object-lifecycle-preference"] = msgspec.json.encode(kept).decode()
    return headers


def _result(payload: Any) -> ProviderResult:
    files = {file.url: file for file in _files(payload, 0)}
    return ProviderResult(payload, tuple(files.values())[:MOST_FILES])


def _files(value: Any, depth: int) -> Iterator[RemoteFile]:
    """The files in a result: objects with an address and facts about the file. An address alone is just text."""
    if depth > MOST_DEPTH:
        return
    if isinstance(value, dict):
        url: Any = value.get("url")
        if is_web_address(url) and ("content_type" in value or "file_name" in value):
            yield RemoteFile(url, text_at(value, "file_name") or last_name(url), text_at(value, "content_type"))
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value[: 10 * MOST_FILES]:
            yield from _files(item, depth + 1)


def _is_final(error: Any) -> bool:
    """Whether a retry cannot help. Errors of fal's machines have a type and may pass; a model's are about its input."""
    kind = text_at(error, "error_type")
    return kind is None or kind in ("bad_request", "client_cancelled", "client_disconnected")


def _parsed(body: bytes) -> Any:
    try:
        return read_object(body)
    except ValueError:
        return None
