"""Bad input over HTTP: a problem that says what is wrong, nothing changed, and a server that goes on."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

SUBMIT = {"tool": "upscale", "payload": {"image": "x"}}


@pytest.fixture
def user(server: Served, name: str) -> Iterator[httpx.Client]:
    with server.client(server.account(name)) as client:
        yield client


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem that an answer is, checked as far as all problems are alike."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == code
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["correlation_id"] == answer.headers["x-correlation-id"]
    return problem


def balance(user: httpx.Client) -> int:
    found: int = user.get("/api/account").json()["balance"]
    return found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not JSON"),
        (b"{", "line 1, column 2"),
        (b"nonsense", "not JSON"),
        (b'{"tool": NaN}', "NaN"),
        (b'{"tool": -Infinity}', "Infinity"),
        (b'{"tool": "a", "tool": "b"}', "'tool' is repeated"),
        (b'{"tool": "a", "payload": {"x": 1, "x": 2}}', "'x' is repeated"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
        (b'{"tool": ' + b"9" * 5_000 + b"}", "not acceptable JSON"),
        (b'{"tool": "\xff"}', "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
    ],
    ids=["empty", "open", "word", "nan", "infinity", "twice", "twice within", "deep", "digits", "bytes", "mark"],
)
def test_what_is_not_json_is_told_so(user: httpx.Client, text: bytes, words: str) -> None:
    answer = user.post("/api/jobs", content=text, headers={"Content-Type": "application/json"})

    assert words in refused(answer, 400, "INVALID_JSON")["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "Expected `object`"),
        ({}, "`tool`"),
        ({"tool": 5}, "$.tool"),
        ({"tool": "upscale", "payload": []}, "$.payload"),
        ({**SUBMIT, "balance": 1_000_000}, "balance"),
        ({**SUBMIT, "status": "completed"}, "status"),
        ({**SUBMIT, "cost": 0}, "cost"),
        ({**SUBMIT, "run_at": "yesterday"}, "$.run_at"),
        ({**SUBMIT, "delay_s": -1}, "$.delay_s"),
        ({**SUBMIT, "delay_s": "1"}, "$.delay_s"),
        ({**SUBMIT, "idempotency_key": "two words"}, "idempotency key"),
        ({**SUBMIT, "session": ""}, "$.session"),
        ({**SUBMIT, "session": "a\u0000b"}, "NUL"),
        ({**SUBMIT, "session": "\ud800"}, "surrogate"),
        ({**SUBMIT, "payload": {"image": "\ud800"}}, "surrogate"),
        ({**SUBMIT, "\ud800": 2**80}, "surrogate"),
    ],
    ids=lambda value: None if isinstance(value, str) else json.dumps(value)[-40:],
)
def test_a_body_that_does_not_fit_is_told_where(user: httpx.Client, body: Any, words: str) -> None:
    before = balance(user)

    answer = user.post("/api/jobs", content=json.dumps(body), headers={"Content-Type": "application/json"})

    assert words in refused(answer, 422, "INVALID_ARGUMENT")["detail"]
    assert balance(user) == before


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"image": 5}, "image"),
        ({}, "image"),
        ({"image": "x", "scael": 3}, "scael"),
        ({"image": "\u0000"}, "NUL"),
        ({"image": "x", "scale": 2**60}, "2^53"),
        ({"image": "x", "scale": 1e400}, "JSON does not have"),
    ],
    ids=["type", "missing", "unknown", "nul", "integer", "float"],
)
def test_a_payload_that_does_not_fit_is_told_where(user: httpx.Client, payload: Any, words: str) -> None:
    text = json.dumps({"tool": "upscale", "payload": payload}).replace("Infinity", "1e400")

    answer = user.post("/api/jobs", content=text, headers={"Content-Type": "application/json"})

    assert words in refused(answer, 422, "INVALID_PAYLOAD")["detail"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""]
)
def test_a_body_of_another_type_is_not_guessed_at(user: httpx.Client, kind: str) -> None:
    answer = user.post("/api/jobs", content=json.dumps(SUBMIT), headers={"Content-Type": kind})

    assert "application/json" in refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")["detail"]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(user: httpx.Client) -> None:
    answer = user.post("/api/jobs", content=b" " * 2_000_000, headers={"Content-Type": "application/json"})

    assert "1048576" in refused(answer, 413, "TOO_LARGE")["detail"]


def test_a_payload_at_its_limit_passes_and_one_beyond_it_is_refused(user: httpx.Client) -> None:
    most = 262_144 - len('{"image":""}')

    assert user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x" * most}}).status_code == 201
    answer = user.post("/api/jobs", json={"tool": "upscale", "payload": {"image": "x" * (most + 1)}})
    assert refused(answer, 413, "TOO_LARGE")["limit"] == 262_144


@pytest.mark.parametrize(
    "found", ["1", "x" * 500, "%00", "..%2f..%2fetc", "' OR 1=1 --", "0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10"]
)
@pytest.mark.parametrize("path", ["/api/jobs/{}", "/api/batches/{}", "/api/jobs/{}/events"])
def test_an_id_that_is_none_names_nothing(user: httpx.Client, path: str, found: str) -> None:
    refused(user.get(path.format(found)), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": 0},
        {"limit": 1_001},
        {"limit": "many"},
        {"status": "done"},
        {"cursor": "AAAA"},
        {"cursor": "not a cursor"},
        {"cursor": "x" * 3_000},
        {"tool": "a\u0000b"},
        {"account": ""},
        {"account": ["", "somebody"]},
        {"limit": [1, 1]},
    ],
    ids=str,
)
def test_a_parameter_out_of_its_range_is_told(user: httpx.Client, parameters: dict[str, Any]) -> None:
    refused(user.get("/api/jobs", params=parameters), 422, "INVALID_ARGUMENT")


def test_a_request_has_a_hundred_parameters_at_most(user: httpx.Client) -> None:
    assert user.get("/api/jobs", params={"status": ["queued"] * 100}).status_code == 200
    answer = user.get("/api/jobs", params={"status": ["queued"] * 101})
    assert "at most 100 parameters" in refused(answer, 422, "INVALID_ARGUMENT")["detail"]


def test_a_long_name_is_not_sent_back_whole(user: httpx.Client) -> None:
    answer = user.post("/api/jobs", json={**SUBMIT, "x" * 500_000: 1})

    assert len(refused(answer, 422, "INVALID_ARGUMENT")["detail"]) < 2_100


def test_a_parameter_that_takes_many_values_may_be_repeated(user: httpx.Client) -> None:
    assert user.get("/api/jobs", params={"status": ["queued", "running"], "limit": 1}).status_code == 200


@pytest.mark.parametrize(
    "repeated",
    [
        *("Authorization", "authorization", "Idempotency-Key", "Content-Type", "X-Correlation-ID", "Last-Event-ID"),
        *("Origin", "Sec-Fetch-Site"),
    ],
)
def test_a_header_that_is_meant_once_is_refused_twice(server: Served, name: str, repeated: str) -> None:
    bearer = f"Bearer {server.account(name)}"
    values = {"authorization": bearer, "content-type": "application/json"}
    sent = values | {repeated.lower(): values.get(repeated.lower(), "1")}
    with server.client(None) as client:
        answer = client.post("/api/jobs", json=SUBMIT, headers=[*sent.items(), (repeated, sent[repeated.lower()])])
        assert "more than once" in refused(answer, 422, "INVALID_ARGUMENT")["detail"]
        assert client.get("/api/jobs", headers={"Authorization": bearer}).json()["items"] == []


def test_a_cursor_is_good_for_its_own_list_only(user: httpx.Client) -> None:
    for _ in range(3):
        user.post("/api/jobs", json=SUBMIT)
    page = user.get("/api/jobs", params={"limit": 1}).json()
    cursor = page["next"]

    following = user.get("/api/jobs", params={"limit": 1, "cursor": cursor}).json()
    assert following["items"][0]["id"] < page["items"][0]["id"]
    refused(user.get("/api/account/ledger", params={"cursor": cursor}), 422, "INVALID_ARGUMENT")
    for index in (0, len(cursor) // 2, len(cursor) - 1):
        other = cursor[:index] + ("A" if cursor[index] != "A" else "B") + cursor[index + 1 :]
        refused(user.get("/api/jobs", params={"cursor": other}), 422, "INVALID_ARGUMENT")


def test_an_address_that_is_none_and_a_method_that_is_not_for_it(user: httpx.Client) -> None:
    refused(user.get("/api/nothing"), 404, "NOT_FOUND")
    refused(user.get("/nothing"), 404, "NOT_FOUND")
    answer = user.delete("/api/jobs")
    assert "DELETE" in refused(answer, 405, "METHOD_NOT_ALLOWED")["detail"]


def test_two_different_keys_for_one_submit_are_refused(user: httpx.Client) -> None:
    answer = user.post("/api/jobs", json={**SUBMIT, "idempotency_key": "a"}, headers={"Idempotency-Key": "b"})

    assert "differ" in refused(answer, 422, "INVALID_ARGUMENT")["detail"]


def test_a_last_event_id_that_is_none_is_told(user: httpx.Client) -> None:
    job = user.post("/api/jobs", json=SUBMIT).json()["job_id"]

    refused(user.get(f"/api/jobs/{job}/events", headers={"Last-Event-ID": "x"}), 422, "INVALID_ARGUMENT")
    refused(user.get(f"/api/jobs/{job}/events", headers={"Accept": "image/png"}), 406, "NOT_ACCEPTABLE")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"tool": "nothing"}, 404, "UNKNOWN_TOOL"),
        ({**SUBMIT, "reservation": "x"}, 404, "NOT_FOUND"),
        ({**SUBMIT, "batch": "0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10"}, 404, "NOT_FOUND"),
        ({**SUBMIT, "account": "somebody"}, 403, "FORBIDDEN"),
        ({"tool": "images", "payload": {"n": 1_000_000}}, 413, "TOO_LARGE"),
        ({"tool": "images", "payload": {"n": 0}}, 422, "INVALID_PAYLOAD"),
    ],
    ids=["tool", "reservation", "batch", "account", "too many", "none"],
)
def test_a_submit_that_cannot_be_is_refused_with_its_code(
    user: httpx.Client, body: dict[str, Any], status: int, code: str
) -> None:
    refused(user.post("/api/jobs", json=body), status, code)
