"""The generic provider: templates are filled as it documents, and mistakes in them are told when it is made."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct

from ficha.providers import (
    CallbackFields,
    GenericProvider,
    HmacSignature,
    ProviderCall,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderResult,
    ProviderSucceeded,
    ProviderWorking,
    RequestTemplate,
    StandardSignature,
    StateFields,
)

FIELDS = StateFields(state="state", working=("run",), succeeded=("done",), failed=("bad",))
STATUS = RequestTemplate(method="GET", url="https://p.example/jobs/{ref}")


class Answered(Struct):
    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class Sender:
    """Answers each request with the next of its answers, and keeps the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[dict[str, Any]] = []

    async def request(self, method: str, url: str, **options: Any) -> Answered:
        self.sent.append({"method": method, "url": url, **options})
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Answered) else Answered(200, json.dumps(answer).encode())


def provider(**options: Any) -> GenericProvider:
    terms = {"start": RequestTemplate(url="https://p.example/jobs"), "ref": "id", "status": STATUS, "fields": FIELDS}
    return GenericProvider("generic", **{**terms, **options})


async def sent(template: RequestTemplate, call: ProviderCall, callback_url: str | None = None) -> dict[str, Any]:
    sender = Sender({"id": 7})
    made = provider(start=template, headers={"authorization": "Bearer k"})
    start = made.start(ProviderHttp(sender), call, callback_url=callback_url, key="job:1", correlation_id=None)
    assert await start == "7"
    return sender.sent[0]


async def test_names_in_a_body_become_values_and_what_has_none_is_left_out() -> None:
    body = {
        "input": "{input}",
        "size": "{options.size}",
        "hook": "{callback_url}",
        "note": "run {key} of {target}, {input.n} times",
        "nested": [{"image": "{input.image}"}, "{options.none}", None, 7],
        "none": None,
        "text": "{not a name}",
    }
    call = ProviderCall("m/1", {"image": "https://x.example/{key}", "n": 2}, {"size": [1, 2]})
    request = await sent(RequestTemplate(url="https://p.example/", body=body), call)
    assert request["json"] == {
        "input": {"image": "https://x.example/{key}", "n": 2},
        "size": [1, 2],
        "note": "run job:1 of m/1, 2 times",
        "nested": [{"image": "https://x.example/{key}"}, None, 7],
        "none": None,
        "text": "{not a name}",
    }
    assert request["headers"]["authorization"] == "Bearer k"


async def test_values_in_an_address_are_quoted_and_in_a_header_are_one_line() -> None:
    template = RequestTemplate(url="https://p.example/{target}?cb={callback_url}", headers={"x-for": "{input.who}"})
    request = await sent(template, ProviderCall("a/b?c#d", {"who": "ana"}), "https://f.example/t?x=1")
    assert request["url"] == "https://p.example/a%2Fb%3Fc%23d?cb=https%3A%2F%2Ff.example%2Ft%3Fx%3D1"
    assert request["headers"]["x-for"] == "ana"
    for call in (ProviderCall("x", {"who": "a\r\nx-admin: 1"}), ProviderCall("..", {"who": "ana"})):
        with pytest.raises(ProviderError) as caught:
            await sent(template, call)
        assert (caught.value.final, caught.value.was_sent) == (True, False)


async def test_a_state_is_read_by_paths() -> None:
    fields = StateFields(
        state="job.state",
        working=("run", "0"),
        succeeded=("done",),
        failed=("bad",),
        error="job.why.0.text",
        output="job.out",
        files="job.out.files.*.href",
        progress="job.percent",
        position="job.place",
        cost="job.price",
    )
    made = provider(fields=fields)

    async def status(**job: Any) -> Any:
        return await made.status(ProviderHttp(Sender({"job": job})), "7")

    assert await status(state="run", percent="40", place=3.0) == ProviderWorking(40, 3)
    assert await status(state=0) == ProviderWorking()
    too_dark = ProviderFailed("too dark", cost=0.5, for_user=False)
    assert await status(state="bad", why=[{"text": "too dark"}], price=0.5) == too_dark
    assert await status(state="bad") == ProviderFailed("the work ended as bad", for_user=False)
    out = {"files": [{"href": "https://x.example/a/b.png"}, {"href": 7}, {"href": "ftp://x"}, {}]}
    succeeded = await status(state="done", out=out, price="0.25")
    assert succeeded.result.output == out
    assert [(file.url, file.name) for file in succeeded.result.files] == [("https://x.example/a/b.png", "b.png")]
    assert succeeded.result.cost == 0.25
    for unknown in ({"state": "odd"}, {"state": None}, {"state": True}, {}):
        with pytest.raises(ProviderError, match=r"no state that is known at job\.state"):
            await status(**unknown)


async def test_work_is_found_by_the_key_of_its_start() -> None:
    sender = Sender({"jobs": [{"id": 7}]}, {"jobs": []}, Answered(404, b"{}"), Answered(500, b"{}"))
    find = RequestTemplate(method="GET", url="https://p.example/jobs?name={key}&of={target}")
    start = RequestTemplate(url="https://p.example/jobs", body={"name": "{key}"})
    made = provider(find=find, found="jobs.0.id", start=start)
    assert (made.finds_work, made.takes_keys, provider(start=start).takes_keys) == (True, False, True)
    http = ProviderHttp(sender)
    found = [await made.find(http, key="job:1", target="a/b") for _ in range(3)]
    assert (found, sender.sent[0]["url"]) == (["7", None, None], "https://p.example/jobs?name=job%3A1&of=a%2Fb")
    with pytest.raises(ProviderError, match="500"):
        await made.find(http, key="job:1", target="a/b")
    for wrong in ({"find": find}, {"found": "id"}, {"find": STATUS, "found": "id"}):
        with pytest.raises(ValueError, match="find"):
            provider(**wrong)


RAW = 'Traceback (most recent call last):\n  File "handler.py", line 4, in handler\nValueError: no face'


@pytest.mark.parametrize(
    ("terms", "answer", "shown", "details"),
    [
        ({}, {"error": RAW}, None, None),
        ({}, {"error": "no face"}, None, None),
        ({"user_error": "why"}, {"error": RAW, "why": "no face"}, "no face", RAW),
        ({"user_error": "error"}, {"error": RAW}, None, None),
        ({"user_error": "error"}, {"error": '{"error_type": "ValueError"}'}, None, None),
        ({"user_error": "why", "user_words": "It failed."}, {"error": "x"}, "It failed.", "x"),
        ({"user_words": "It failed."}, {"error": RAW}, "It failed.", RAW),
    ],
)
async def test_users_read_only_the_words_that_the_configuration_names(
    terms: dict[str, str], answer: dict[str, str], shown: str | None, details: str | None
) -> None:
    fields = StateFields(state="state", working=("run",), succeeded=("done",), failed=("bad",), **terms)
    sender = Sender({"state": "bad", **answer}, Answered(422, json.dumps(answer).encode()))
    made = provider(fields=fields)
    failed = await made.status(ProviderHttp(sender), "7")
    assert isinstance(failed, ProviderFailed)
    assert (failed.error if failed.for_user else None, failed.details) == (shown, details)
    # And also where the provider refuses the request.
    with pytest.raises(ProviderError) as refused:
        await made.start(ProviderHttp(sender), ProviderCall("m", {}), callback_url=None, key="k", correlation_id=None)
    assert refused.value.final
    assert (refused.value.message if refused.value.for_user else None) == shown


@pytest.mark.parametrize("made", [{"files": []}, {}, {"files": [{"filename": "x.png", "url": 7}]}, {"files": "x.png"}])
async def test_work_without_an_address_where_its_files_should_be_has_failed(made: dict[str, Any]) -> None:
    fields = StateFields(
        state="state", working=("run",), succeeded=("done",), failed=("bad",), files="files.*.url", cost="price"
    )
    done = {"state": "done", "price": 0.5, **made}
    result = RequestTemplate(method="GET", url="https://p.example/jobs/{ref}/result")
    http = ProviderHttp(Sender(done, done))
    asked = await provider(fields=fields).status(http, "7")
    fetched = await provider(fields=fields, result=result).result(http, "7")
    for failed in (asked, fetched):
        assert isinstance(failed, ProviderFailed)
        assert (failed.final, failed.for_user, failed.cost) == (True, False, 0.5)
        assert "no address of a file at files.*.url" in failed.error


async def test_a_result_can_have_a_request_of_its_own() -> None:
    sender = Sender({"state": "done"}, {"text": "hello"})
    made = provider(result=RequestTemplate(method="GET", url="https://p.example/jobs/{ref}/result"))
    assert await made.status(ProviderHttp(sender), "7") == ProviderSucceeded()
    assert await made.result(ProviderHttp(sender), "7") == ProviderResult({"text": "hello"})
    assert [one["url"] for one in sender.sent] == ["https://p.example/jobs/7", "https://p.example/jobs/7/result"]


async def test_a_provider_that_cannot_be_told_is_not() -> None:
    await provider().cancel(ProviderHttp(Sender()), "7")


@pytest.mark.parametrize(("status", "state"), [(409, "run"), (400, "run"), (500, "done")])
async def test_a_cancel_that_was_refused_while_the_work_goes_on_is_an_error(status: int, state: str) -> None:
    made = provider(cancel=RequestTemplate(url="https://p.example/jobs/{ref}/cancel"))
    with pytest.raises(ProviderError):
        await made.cancel(ProviderHttp(Sender(Answered(status, b"{}"), {"state": state})), "7")
    if status < 500:
        await made.cancel(ProviderHttp(Sender(Answered(status, b"{}"), {"state": "done"})), "7")


def test_it_takes_keys_where_its_start_has_one_and_signs_where_it_is_told_how() -> None:
    assert not provider().takes_keys
    assert not provider().signs_callbacks
    assert not provider(callback=CallbackFields(ref="id")).signs_callbacks
    for template in (
        RequestTemplate(url="https://p.example/{key}"),
        RequestTemplate(url="https://p.example/", headers={"idempotency-key": "{key}"}),
        RequestTemplate(url="https://p.example/", body={"a": [{"b": "x{key}"}]}),
    ):
        assert provider(start=template).takes_keys
    signature = HmacSignature(header="x", secret="y")  # noqa: S106 (any text)
    assert provider(callback=CallbackFields(ref="id", signature=signature)).signs_callbacks


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": RequestTemplate(url="https://p.example/{ref}")}, "unknown name {ref}"),
        ({"status": RequestTemplate(url="https://p.example/", body=["{input}"])}, "unknown name {input}"),
        ({"start": RequestTemplate(url="https://{target}/x")}, "whose host has no {name}"),
        ({"start": RequestTemplate(url="/jobs")}, "must be an http or https address"),
        ({"fields": StateFields(state="s", working=("a",), succeeded=("a",), failed=("b",))}, "no state twice"),
        ({"fields": StateFields(state="s", working=(), succeeded=("a",), failed=("b",))}, "each name states"),
        ({"callback": CallbackFields(ref="id", signature=StandardSignature(("short",)))}, "whsec_"),
        ({"callback": CallbackFields(ref="id", signature=StandardSignature(()))}, "whsec_"),
        ({"callback": CallbackFields(ref="id", signature=HmacSignature(header="x", secret=""))}, "not empty"),
    ],
)
def test_a_mistake_in_the_configuration_is_told_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("{", r"\{")):
        provider(**options)
