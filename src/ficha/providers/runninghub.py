"""RunningHub: workflows and AI apps. Its call-backs are not signed, so their content is not believed."""

from __future__ import annotations

import base64
import mimetypes
import re
import secrets
from typing import Any, Final

from .base import (
    BUSY_S,
    WORDS_LENGTH,
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
from .json_paths import all_found, found, is_web_address, last_name, number_at, read_object, text_at
from .options import check_options, credential, reference

BASE_URL: Final = "https://www.runninghub.ai"
APP: Final = "app:"
"""The prefix that tells an AI app's id from a workflow's."""
OPTIONS: Final = {"addMetadata", "instanceType", "upload", "usePersonalQueue", "workflow"}
UPLOAD_BYTES: Final = 31_457_280
"""The largest file that RunningHub takes."""
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
BUSY: Final = frozenset({415, 421, 814})
"""Codes for: no machine or no place in its queue is free."""
OPERATORS: Final = frozenset({412, 416, 801, 802, 806, 811, 812})
"""Codes that refuse the operator: a bad key, an empty wallet. Their message is not for the user."""
BAD_CALL: Final = frozenset({301, 380, 423, 433, 803, 807, 808, 809, 810, 901})
"""Codes that refuse the call: an unknown workflow, a node that is not there, a task that is gone."""


class RunningHub(Provider):
    """A provider for https://www.runninghub.ai.

    api_key: the API key. Defaults to RUNNINGHUB_API_KEY.
    price_per_coin, price_per_s: what one of its coins, or a second of a task, costs you, in your currency; coins take
        precedence if both are given and known. Defaults to no cost being recorded.
    base_url: its address; https://www.runninghub.cn for the other site.
    limits: `rate`, `at_once`, `timeout_s`, `poll_s` and `breaker`, as for every `Provider`.

    A call's target is a workflow's id, or `app:` and an AI app's id. Its input names a node's field, as in
    `{"6.text": "a lamp", "3.seed": 7}`. Its options: `addMetadata`, `instanceType`, `usePersonalQueue` and `workflow`,
    as RunningHub documents them, and `upload`: the inputs, by name, whose value is the address or data URI of a file
    that is uploaded to RunningHub first, as nodes that load an image need it. Each upload is one more request.
    """

    takes_keys = False
    signs_callbacks = False

    def __init__(
        self,
        api_key: str | None = None,
        *,
        name: str = "runninghub",
        price_per_coin: float | None = None,
        price_per_s: float | None = None,
        base_url: str = BASE_URL,
        **limits: Any,
    ) -> None:
        super().__init__(name, **limits)
        self._api_key = credential(api_key, "RUNNINGHUB_API_KEY", f"provider {name!r}: api_key")
        self._price_per_coin = price_per_coin
        self._price_per_s = price_per_s
        self._base_url = base_url.rstrip("/")

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
        nodes = [_node(name, value) for name, value in call.input.items()]
        uploads = call.options.get("upload", ())
        for node in nodes:
            if f"{node['nodeId']}.{node['fieldName']}" in uploads:
                node["fieldValue"] = await self._uploaded(http, node["fieldValue"])
        body: dict[str, Any] = {"apiKey": self._api_key, "nodeInfoList": nodes}
        body |= {name: value for name, value in call.options.items() if name != "upload"}
        if callback_url is not None:
            body["webhookUrl"] = callback_url
        if call.target.startswith(APP):
            path, body["webappId"] = "ai-app/run", call.target.removeprefix(APP)
        else:
            path, body["workflowId"] = "create", call.target
        data = await self._post(http, path, body, {"idempotency-key": key})
        return reference(text_at(data, "taskId"), "RunningHub")

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        """The state, from the list of outputs, which tells all: whether the task runs, why it failed, what it made."""
        answer = await self._envelope(http, "outputs", {"apiKey": self._api_key, "taskId": ref})
        match _code(answer):
            case 0 if isinstance(files := found(answer, "data"), list):
                return ProviderSucceeded(self._result(files))
            case 804 | 813:  # it runs, or waits
                return ProviderWorking()
            case 805:  # it failed, or was cancelled
                reason = found(answer, "data.failedReason")
                words = text_at(reason, "exception_message") or text_at(answer, "data.failedReason")
                return ProviderFailed((words or text_at(answer, "msg") or "the task failed")[:WORDS_LENGTH])
            case _:
                raise _problem(answer)

    async def result(self, http: ProviderHttp, ref: str) -> ProviderResult:
        match await self.status(http, ref):
            case ProviderSucceeded(ProviderResult() as result):
                return result
            case other:
                raise ProviderError(f"the task has no result: {other}", is_fault=False)

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        try:
            await self._post(http, "cancel", {"apiKey": self._api_key, "taskId": ref})
        except ProviderError:
            # RunningHub has no separate code for a task that has ended already.
            if isinstance(await self.status(http, ref), ProviderWorking):
                raise

    def refs(self, callback: ReceivedCallback) -> str | None:
        try:
            body = read_object(callback.body)
        except ValueError:
            return None
        return text_at(body, "taskId") or text_at(body, "data.taskId")

    async def _uploaded(self, http: ProviderHttp, value: Any) -> str:
        """Uploads a file; returns the name that RunningHub gives to it."""
        if not isinstance(value, str):
            raise _mistake("an input that is uploaded must be a file's address or a data URI")
        data, media_type = await _file(http, value)
        boundary = secrets.token_hex(16)
        suffix = mimetypes.guess_extension(media_type) or ".bin"
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
            for name, text in (("apiKey", self._api_key), ("fileType", "input"))
        ]
        disposition = f'form-data; name="file"; filename="input{suffix}"'
        head = f"--{boundary}\r\nContent-Disposition: {disposition}\r\nContent-Type: {media_type}\r\n\r\n"
        content = b"".join([*parts, head.encode(), data, f"\r\n--{boundary}--\r\n".encode()])
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
        answer = await http.json("POST", f"{self._base_url}/task/openapi/upload", headers=headers, content=content)
        if _code(answer) != 0 or (name := text_at(answer, "data.fileName")) is None:
            raise _problem(answer)
        return name

    def _result(self, files: list[Any]) -> ProviderResult:
        made = []
        for file in files:
            url = found(file, "fileUrl")
            if is_web_address(url):
                media_type, _ = mimetypes.guess_type(f"x.{text_at(file, 'fileType') or ''}")
                made.append(RemoteFile(url, last_name(url), media_type))
        return ProviderResult(files, tuple(made), self._cost(files))

    def _cost(self, files: list[Any]) -> float | None:
        """The cost of the task. Each output reports that of the whole task, so they are not summed."""
        for price, field in ((self._price_per_coin, "consumeCoins"), (self._price_per_s, "taskCostTime")):
            known = [number for file in files if (number := number_at(file, field)) is not None]
            if price is not None and known:
                return price * max(known)
        return None

    async def _post(
        self, http: ProviderHttp, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> Any:
        answer = await self._envelope(http, path, body, headers)
        if _code(answer) != 0:
            raise _problem(answer)
        return found(answer, "data")

    async def _envelope(
        self, http: ProviderHttp, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> Any:
        return await http.json("POST", f"{self._base_url}/task/openapi/{path}", headers=headers, json=body)


def _node(name: str, value: Any) -> dict[str, Any]:
    node_id, dot, field = name.partition(".")
    if not (node_id and dot and field):
        raise _mistake(f"input {name!r} names no node's field, such as 6.text")
    return {"nodeId": node_id, "fieldName": field, "fieldValue": value}


async def _file(http: ProviderHttp, value: str) -> tuple[bytes, str]:
    if value.startswith("data:"):
        head, _, text = value.removeprefix("data:").partition(",")
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError as error:
            raise _mistake("an input's data URI cannot be decoded") from error
        return data, _media_type(head)
    if not is_web_address(value):
        raise _mistake("an input that is uploaded must be a file's address or a data URI")
    answer = await http.request("GET", value, headers={"accept": "*/*"}, most_bytes=UPLOAD_BYTES, guarded=True)
    return answer.body, _media_type({name.lower(): text for name, text in answer.headers.items()}.get("content-type"))


def _media_type(text: str | None) -> str:
    kind = (text or "").partition(";")[0].strip()
    return kind if _MEDIA_TYPE.fullmatch(kind) else "application/octet-stream"


def _code(answer: Any) -> int | None:
    code = found(answer, "code")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _mistake(words: str) -> ProviderError:
    return ProviderError(words, final=True, was_sent=False, is_fault=False)


def _problem(answer: Any) -> ProviderError:
    """The error of an envelope whose code is not 0. RunningHub answers all of them with the status 200."""
    code, words = _code(answer), text_at(answer, "msg") or "no message"
    if code in BUSY:
        return ProviderBusy(f"RunningHub takes no more tasks now: {words}", BUSY_S)
    if code in OPERATORS:
        return ProviderError(f"RunningHub refused with code {code}: {words}", final=True, is_fault=False)
    if code in BAD_CALL:
        said = "; ".join([words, *(text for text in all_found(answer, "data.promptTips") if isinstance(text, str))])
        return ProviderError(said, final=True, is_fault=False, for_user=True)
    return ProviderError(f"RunningHub answered with code {code}: {words}")
