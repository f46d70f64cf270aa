"""A provider that is described instead of written: requests as templates, answers and call-backs by dotted paths.

There is no language in it beyond `{names}` and `dotted.paths`. Whatever needs more should be a subclass of `Provider`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
    is_plain,
)
from .json_paths import all_found, found, is_web_address, last_name, number_at, read_object, text_at
from .options import reference
from .signatures import NO_FIT, HmacSignature, StandardSignature, check_secret, fits_hmac, fits_standard_webhook

MOST_FILES: Final = 100
OF_A_START: Final = frozenset({"target", "input", "options", "callback_url", "key", "correlation_id"})
OF_A_FIND: Final = frozenset({"key", "target"})
OF_A_REQUEST: Final = frozenset({"ref"})
_NAME: Final = re.compile(r"\{(\w+(?:\.[\w*]+)*)\}", re.ASCII)


class RequestTemplate(Struct, frozen=True, kw_only=True):
    """A request, with the names of values in braces.

    In the URL and in headers, `{name}` is replaced by the value as text, in the URL in its quoted form. In the body, a
    text that is only `{name}` becomes the value itself, of any type, and its field is omitted if there is no such
    value; within other text `{name}` is replaced by the value as text.

    A start knows `{target}`, `{input}`, `{options}`, `{callback_url}`, `{key}` and `{correlation_id}`, and parts of
    them, as in `{input.image}` and `{options.size}`. The other requests know `{ref}`, the reference in the start's
    answer.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = {}
    body: Any = None


class StateFields(Struct, frozen=True, kw_only=True):
    """Where an answer or a call-back has the state of the work, as dotted paths: `task.state`, `files.0.url`, or
    `files.*.url` for every item.

    state: the state's name. working, succeeded, failed: the names that mean each of these.
    error: the provider's message about a failure, for operators.
    user_error: the provider's message that the job's owner reads. Defaults to none: the owner reads `user_words`.
    user_words: your own sentence for a failure without such a message. Defaults to one that names only the job.
    output: the result. Defaults to all of the answer.
    files: the addresses of files that the provider made; work without any has failed. Defaults to none.
    progress, position: percent, and the place in the provider's queue. Defaults to neither.
    cost: what the work cost you, in your currency. Defaults to no cost being recorded.
    """

    state: str
    working: tuple[str, ...]
    succeeded: tuple[str, ...]
    failed: tuple[str, ...]
    error: str = "error"
    user_error: str | None = None
    user_words: str | None = None
    output: str | None = None
    files: str | None = None
    progress: str | None = None
    position: str | None = None
    cost: str | None = None


class CallbackFields(Struct, frozen=True, kw_only=True):
    """How call-backs are read.

    ref: where the reference is.
    signature: how call-backs are signed. Defaults to none: their content is not believed, and the state is asked for.
    fields: where a signed call-back has the state of the work. Defaults to the same as in the answer about the state.
    """

    ref: str
    signature: HmacSignature | StandardSignature | None = None
    fields: StateFields | None = None


class GenericProvider(Provider):
    """A provider by configuration.

    start, status: the requests. ref: where the start's answer has the reference.
    find: the request that finds the work of a `{key}` whose start was not answered; its answer has the reference at
        `found`, and nothing there, or a 404, means that there is none. Defaults to none: such a start is a failed run.
    fields: how the answer about the state is read.
    result: the request for the result, if the answer about the state does not have it; its answer is read with the
        `output`, `files` and `cost` of `fields`.
    cancel: the request that stops the work. Defaults to none: work at the provider is not cancelled.
    callback: how call-backs are read. Defaults to none: a call-back only causes a request for the state.
    headers: sent with every request, such as the key.
    limits: `rate`, `at_once`, `timeout_s`, `poll_s` and `breaker`, as for every `Provider`.

    It counts as a provider that takes keys if `{key}` is part of its start and it has no `find`. With `find`, the key
    is a name that the provider stores with the work, and does not keep it from starting the work twice.
    """

    def __init__(
        self,
        name: str,
        *,
        start: RequestTemplate,
        ref: str,
        status: RequestTemplate,
        fields: StateFields,
        find: RequestTemplate | None = None,
        found: str | None = None,
        result: RequestTemplate | None = None,
        cancel: RequestTemplate | None = None,
        callback: CallbackFields | None = None,
        headers: Mapping[str, str] | None = None,
        **limits: Any,
    ) -> None:
        super().__init__(name, **limits)
        if (find is None) is not (found is None):
            raise ValueError("find, the request, and found, the path in its answer, are given together")
        if find is not None and "key" not in _names(find):
            raise ValueError("find: the request must name the {key} of the start")
        of_requests = ((one, OF_A_REQUEST) for one in (status, result, cancel))
        for template, known in ((start, OF_A_START), (find, OF_A_FIND), *of_requests):
            if template is not None:
                _check_template(template, known)
        _check_states(fields)
        self._start, self._status, self._result, self._cancel = start, status, result, cancel
        self._ref = ref
        self._find, self._found = find, found
        self._fields = fields
        self._callback = callback
        self._headers = dict(headers or {})
        # With `find`, the start may send the key as a mere name of the work.
        self.finds_work = find is not None
        self.takes_keys = "key" in _names(start) and find is None
        self.signs_callbacks = callback is not None and callback.signature is not None
        if callback is not None:
            if callback.fields is not None:
                _check_states(callback.fields)
            if isinstance(callback.signature, StandardSignature):
                for secret in callback.signature.secrets or ("",):
                    check_secret(secret)
            if isinstance(callback.signature, HmacSignature) and not callback.signature.secret:
                raise ValueError("secret: a signature needs a secret that is not empty")

    async def start(
        self,
        http: ProviderHttp,
        call: ProviderCall,
        *,
        callback_url: str | None,
        key: str,
        correlation_id: str | None,
    ) -> str:
        values = {
            "target": call.target,
            "input": call.input,
            "options": call.options,
            "callback_url": callback_url,
            "key": key,
            "correlation_id": correlation_id,
        }
        answer = await self._send(http, self._start, values)
        return reference(text_at(answer, self._ref), f"{self.name}, at {self._ref},")

    async def find(self, http: ProviderHttp, *, key: str, target: str) -> str | None:
        assert self._find is not None
        assert self._found is not None
        try:
            answer = await self._send(http, self._find, {"key": key, "target": target})
        except ProviderError as error:
            if error.answer is not None and error.answer.status == 404:
                return None
            raise
        found = text_at(answer, self._found)
        return None if found is None else reference(found, f"{self.name}, at {self._found},")

    async def status(self, http: ProviderHttp, ref: str) -> ProviderStatus:
        return _status(await self._send(http, self._status, {"ref": ref}), self._fields, self._result is None)

    async def result(self, http: ProviderHttp, ref: str) -> ProviderResult | ProviderFailed:
        if self._result is not None:
            return _result(await self._send(http, self._result, {"ref": ref}), self._fields)
        match await self.status(http, ref):
            case ProviderSucceeded(ProviderResult() as result):
                return result
            case ProviderFailed() as failed:
                return failed
            case other:
                raise ProviderError(f"the work has no result: {other}", is_fault=False)

    async def cancel(self, http: ProviderHttp, ref: str) -> None:
        if self._cancel is None:
            return
        try:
            await self._request(http, self._cancel, {"ref": ref})
        except ProviderError as error:
            # Many providers refuse to cancel ended work, each in its own way.
            if error.is_fault or isinstance(await self.status(http, ref), ProviderWorking):
                raise

    async def verify(self, http: ProviderHttp, callback: ReceivedCallback) -> ProviderStatus | None:
        if self._callback is None or (terms := self._callback.signature) is None:
            return None
        if isinstance(terms, HmacSignature):
            fits = fits_hmac(callback, terms)
        else:
            fits = fits_standard_webhook(callback, terms.secrets)
        if not fits:
            raise BadCallback(NO_FIT)
        try:
            body, fields = read_object(callback.body), self._callback.fields or self._fields
            status = _status(body, fields, self._result is None)
        except (ValueError, ProviderError) as error:
            raise BadCallback(f"its body cannot be read: {error}") from error
        # A call-back may leave out what the answer about the state has.
        is_without_files = isinstance(status, ProviderFailed) and text_at(body, fields.state) in fields.succeeded
        return None if is_without_files else status

    def refs(self, callback: ReceivedCallback) -> str | None:
        if self._callback is None:
            return None
        try:
            return text_at(read_object(callback.body), self._callback.ref)
        except ValueError:
            return None

    async def _send(self, http: ProviderHttp, template: RequestTemplate, values: dict[str, Any]) -> Any:
        try:
            return await http.json(template.method, **self._filled(template, values))
        except ProviderError as error:
            if error.for_user:
                self._for_user(error)
            raise

    def _for_user(self, error: ProviderError) -> None:
        """Gives an error about the user's request the words that users may read, if there are any."""
        body = None if error.answer is None else _json(error.answer.body)
        words = _words_for_user(body, self._fields)
        error.for_user = words is not None
        if words is not None:
            error.message, error.details = words, error.message

    async def _request(self, http: ProviderHttp, template: RequestTemplate, values: dict[str, Any]) -> None:
        await http.request(template.method, **self._filled(template, values))

    def _filled(self, template: RequestTemplate, values: dict[str, Any]) -> dict[str, Any]:
        headers = {**self._headers, **template.headers}
        filled: dict[str, Any] = {
            "url": _NAME.sub(lambda name: _quoted(_text(values, name[1])), template.url),
            "headers": {name: _header(_inserted(text, values)) for name, text in headers.items()},
        }
        if template.body is not None:
            filled["json"] = _body(template.body, values)
        return filled


def _status(answer: Any, fields: StateFields, has_result: bool) -> ProviderStatus:
    state = text_at(answer, fields.state)
    if state in fields.working:
        return ProviderWorking(_whole(answer, fields.progress), _whole(answer, fields.position))
    if state in fields.succeeded:
        if not has_result:
            return ProviderSucceeded()
        result = _result(answer, fields)
        return result if isinstance(result, ProviderFailed) else ProviderSucceeded(result)
    if state in fields.failed:
        raw = text_at(answer, fields.error) or f"the work ended as {state}"
        return _failed(raw, answer, fields)
    raise ProviderError(f"the provider's answer has no state that is known at {fields.state}: {state!r}")


def _failed(raw: str, answer: Any, fields: StateFields) -> ProviderFailed:
    """A failure in the words for users, if there are any, and else in those for operators."""
    words, cost, raw = _words_for_user(answer, fields), _number(answer, fields.cost), raw[:WORDS_LENGTH]
    if words is None:
        return ProviderFailed(raw, cost=cost, for_user=False)
    return ProviderFailed(words, cost=cost, details=raw)


def _words_for_user(answer: Any, fields: StateFields) -> str | None:
    words = None if fields.user_error is None else text_at(answer, fields.user_error)
    return fields.user_words if words is None or not is_plain(words) else words[:WORDS_LENGTH]


def _json(body: bytes) -> Any:
    try:
        return read_object(body)
    except ValueError:
        return None


def _result(answer: Any, fields: StateFields) -> ProviderResult | ProviderFailed:
    urls = [] if fields.files is None else all_found(answer, fields.files)
    files = tuple(RemoteFile(url, last_name(url)) for url in dict.fromkeys(filter(is_web_address, urls)))
    if fields.files is not None and not files:
        shown = msgspec.json.encode(urls).decode()[:WORDS_LENGTH]
        raw = f"the provider's answer has no address of a file at {fields.files}, but {shown}"
        return replace(_failed(raw, None, fields), cost=_number(answer, fields.cost))
    output = answer if fields.output is None else found(answer, fields.output)
    return ProviderResult(output, files[:MOST_FILES], _number(answer, fields.cost))


def _number(answer: Any, path: str | None) -> float | None:
    return None if path is None else number_at(answer, path)


def _whole(answer: Any, path: str | None) -> int | None:
    number = _number(answer, path)
    return None if number is None else int(min(number, 1_000_000_000))


def _body(value: Any, values: dict[str, Any]) -> Any:
    """A body with its names replaced. Names without a value are omitted from objects and lists."""
    match value:
        case str():
            alone = _NAME.fullmatch(value)
            return found(values, alone[1]) if alone else _inserted(value, values)
        case dict():
            filled = {name: _body(item, values) for name, item in value.items()}
            return {name: item for name, item in filled.items() if item is not None or value[name] is None}
        case list() | tuple():
            items = [(item, _body(item, values)) for item in value]
            return [filled for item, filled in items if filled is not None or item is None]
        case _:
            return value


def _inserted(text: str, values: dict[str, Any]) -> str:
    return _NAME.sub(lambda name: _text(values, name[1]), text)


def _text(values: dict[str, Any], path: str) -> str:
    value = found(values, path)
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _quoted(text: str) -> str:
    """Quotes a text as one part of a path or query; refuses `.` and `..`, which would change the path."""
    if text in (".", ".."):
        raise ProviderError(f"{text!r} cannot be part of an address", final=True, was_sent=False, is_fault=False)
    return quote(text, safe="")


def _header(text: str) -> str:
    """Refuses a value that could begin another header: it may be a user's."""
    if not text.isascii() or not text.isprintable():
        words = "a value that goes into a header must be printable ASCII"
        raise ProviderError(words, final=True, was_sent=False, is_fault=False)
    return text


def _names(value: Any) -> set[str]:
    """The names in a template, without the paths after them."""
    match value:
        case str():
            return {name.partition(".")[0] for name in _NAME.findall(value)}
        case RequestTemplate():
            return _names(value.url) | _names(dict(value.headers)) | _names(value.body)
        case dict():
            return set[str]().union(*map(_names, value.values()))
        case list() | tuple():
            return set[str]().union(*map(_names, value))
        case _:
            return set()


def _check_template(template: RequestTemplate, known: frozenset[str]) -> None:
    if not is_web_address(_NAME.sub("x", template.url)) or "{" in template.url.split("/", 3)[2]:
        raise ValueError(f"url {template.url!r} must be an http or https address whose host has no {{name}} in it")
    for name in sorted(_names(template) - known):
        raise ValueError(f"{template.url}: unknown name {{{name}}}; known are: {', '.join(sorted(known))}")


def _check_states(fields: StateFields) -> None:
    states = [*fields.working, *fields.succeeded, *fields.failed]
    if not (fields.working and fields.succeeded and fields.failed) or len(set(states)) < len(states):
        raise ValueError("working, succeeded and failed must each name states, and no state twice")
