"""A provider without a server, for tests of applications: it does what the test says, when the test says it."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from ..providers import (
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

if TYPE_CHECKING:
    from ..app import Ficha


STAND_IN: Final = b"what a scripted provider made"
"""The bytes of a file of which a test gives only the address."""


class ScriptedStart(Struct, frozen=True):
    """Work that was started: the provider's reference, the call, and what was sent with it."""

    ref: str
    call: ProviderCall
    key: str
    callback_url: str | None
    correlation_id: str | None


class ScriptedProvider(Provider):
    """Takes all work and does nothing with it until the test says how it went.

    started: the work that was started, each once. cancelled: references of what the application cancelled.
    contents: the bytes of its files, by address. A sandbox reads them here, and fetches nothing.
    """

    takes_keys = True
    signs_callbacks = True

    def __init__(self, name: str = "scripted", **options: Any) -> None:
        super().__init__(name, **options)
        self.started: list[ScriptedStart] = []
        self.cancelled: list[str] = []
        self.contents: dict[str, bytes] = {}
        self._usual: ProviderStatus = ProviderWorking()
        self._by_ref: dict[str, ProviderStatus] = {}
        self._errors: list[ProviderError] = []

    def succeed(
        self, output: Any = None, *files: RemoteFile, ref: str | None = None, cost: float | None = None
    ) -> None:
        """Lets the work of this reference succeed; without one, all work, also what is started later.

        files: as `file` makes them. Other addresses are never fetched either: the bytes `STAND_IN` are used instead.
        """
        for file in files:
            self.contents.setdefault(file.url, STAND_IN)
        self._told(ref, ProviderSucceeded(ProviderResult(output, files, cost)))

    def file(self, name: str, data: bytes) -> RemoteFile:
        """A file that the provider made, for `succeed`."""
        url = f"https://{self.name}.invalid/{len(self.contents) + 1}/{quote(name, safe='')}"
        self.contents[url] = data
        return RemoteFile(url, name)

    def fail(self, error: str, *, final: bool = True, ref: str | None = None) -> None:
        """Lets the work of this reference fail; without one, all work, also what is started later."""
        self._told(ref, ProviderFailed(error, final))

    def refuse(self, error: ProviderError) -> None:
        """Makes the application's next request fail with this error; call it again for a further one."""
        self._errors.append(error)

    async def call_back(self, app: Ficha, ref: str | None = None) -> None:
        """Calls the application back with the status of this reference's work, or of the work that was started last."""
        start = self.started[-1] if ref is None else next(one for one in self.started if one.ref == ref)
        if start.callback_url is None:
            raise RuntimeError("there is no address to call back: the application has no `secret` and `public_url`")
        body = msgspec.json.encode({"ref": start.ref, "status": self._status(start.ref)})
        headers = {"x-scripted-signature": _signature(self.name, body)}
        await app.receive_callback(self.name, start.callback_url.rpartition("/")[2], headers, body)

    def _told(self, ref: str | None, status: ProviderStatus) -> None:
        if ref is not None:
            self._by_ref[ref] = status
        else:
            self._usual, self._by_ref = status, {}

    def _status(self, ref: str) -> ProviderStatus:
        return self._by_ref.get(ref, self._usual)

    def _fail_if_told(self) -> None:
        if self._errors:
            raise self._errors.pop(0)

    async def start(
        self,
        http: ProviderHttp,
        call: ProviderCall,
        *,
        callback_url: str | None,
        key: str,
        correlation_id: str | None,
    ) -> str:
        self._fail_if_told()
        known = next((one for one in self.started if one.key == key), None)
        if known is None:
            known = ScriptedStart(f"work-{len(self.started) + 1}", call, key, callback_url, correlation_id)
            self.started.append(known)
        return known.ref

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        self._fail_if_told()
        return self._status(ref)

    async def result(self, http: ProviderHttp, ref: str) -> ProviderResult:
        status = self._status(ref)
        assert isinstance(status, ProviderSucceeded)
        assert status.result is not None
        return status.result

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        self._fail_if_told()
        self.cancelled.append(ref)

    async def verify(self, http: ProviderHttp, callback: ReceivedCallback) -> ProviderStatus | None:
        if callback.headers.get("x-scripted-signature") != _signature(self.name, callback.body):
            raise BadCallback("the signature is wrong")
        return msgspec.json.decode(callback.body, type=_Told).status

    def refs(self, callback: ReceivedCallback) -> str | None:
        try:
            return msgspec.json.decode(callback.body, type=_Told).ref
        except msgspec.MsgspecError:
            return None


class _Told(Struct):
    ref: str
    status: ProviderStatus


def _signature(name: str, body: bytes) -> str:
    return hmac.digest(name.encode(), body, hashlib.sha256).hex()
