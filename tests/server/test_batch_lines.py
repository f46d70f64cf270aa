"""Batches as lines of JSON or CSV, in and out, over HTTP."""

import csv
import json

import pytest

from tests.server.test_bad_input import refused
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

JSONL = {"Content-Type": "application/x-ndjson"}
CSV = {"Content-Type": "text/csv; charset=utf-8"}


@pytest.mark.req("E6")
def test_a_batch_goes_in_as_lines_and_comes_out_as_lines(server: Served, name: str) -> None:
    with server.client(server.account(name, credits=20)) as user:
        text = "".join(f'{{"image": "{n}", "scale": 3}}\n' for n in range(4))
        path = "/api/batches/lines?tool=upscale&session=s1"
        sent = user.post(path, content=text, headers={**JSONL, "Idempotency-Key": "k"})
        assert (sent.status_code, sent.json()["jobs"], sent.json()["cost"]) == (201, 4, 20)
        again = user.post(path, content=text, headers={**JSONL, "Idempotency-Key": "k"})
        assert (again.status_code, again.json()["batch_id"]) == (200, sent.json()["batch_id"])

        results = f"{sent.headers['location']}/results"
        told = user.get(results, params={"payload": True})
        assert told.headers["content-type"].startswith("application/x-ndjson")
        lines = [json.loads(line) for line in told.text.splitlines()]
        assert [line["payload"]["image"] for line in lines] == ["0", "1", "2", "3"]
        assert {(line["status"], line["result"]) for line in lines} == {("queued", None)}
        rows = list(csv.DictReader(user.get(results, params={"format": "csv"}).text.splitlines()))
        assert [row["job_id"] for row in rows] == [line["job_id"] for line in lines]
        assert "payload" not in rows[0]
    with server.client(server.account(f"{name} other")) as other:
        refused(other.get(results), 404, "NOT_FOUND")


def test_csv_is_typed_by_the_tools_schema(server: Served, name: str) -> None:
    with server.client(server.account(name, credits=20)) as user:
        sent = user.post("/api/batches/lines", content="tool,image,scale\r\nupscale,007,4\r\n", headers=CSV)
        assert sent.status_code == 201
        assert user.get(f"/api/jobs/{sent.json()['job_id']}").json()["payload"] == {"image": "007", "scale": 4}


def test_a_batch_goes_as_far_as_the_credits_do(server: Served, name: str) -> None:
    with server.client(server.account(name, credits=12)) as user:
        text = "".join(f'{{"image": "{n}"}}\n' for n in range(4))
        refused(user.post("/api/batches/lines?tool=upscale", content=text, headers=JSONL), 402, "INSUFFICIENT_CREDITS")
        path = "/api/batches/lines?tool=upscale&as_far_as_credits=true"
        sent = user.post(path, content=text, headers=JSONL).json()
        assert (sent["jobs"], sent["left_out"], sent["new_balance"]) == (2, 2, 2)
        assert sent["refusal"]["code"] == "INSUFFICIENT_CREDITS"
        items = [{"tool": "upscale", "payload": {"image": "x"}}] * 2
        body = {"items": items, "as_far_as_credits": True}
        refused(user.post("/api/batches", json=body), 402, "INSUFFICIENT_CREDITS")


@pytest.mark.parametrize(
    ("headers", "text", "code", "words"),
    [
        (
            {"Content-Type": "application/json"},
            "{}",
            (415, "UNSUPPORTED_MEDIA_TYPE"),
            "application/x-ndjson or text/csv",
        ),
        (JSONL, '{"tool": "upscale", "payload": {"image": "x"}}\n{"tool"\n', (422, "INVALID_ARGUMENT"), "line 2"),
        (JSONL, '{"tool": "upscale", "tool": "video"}\n', (422, "INVALID_ARGUMENT"), "line 1"),
        (JSONL, "\n\n", (422, "INVALID_ARGUMENT"), "at least one line"),
        (CSV, "tool,image,scale\nupscale,x,two\n", (422, "INVALID_ARGUMENT"), "line 2, column scale"),
        (JSONL, b"\xff\n", (400, "INVALID_JSON"), "not UTF-8"),
    ],
)
def test_lines_that_are_wrong_change_nothing_and_are_named(
    server: Served, name: str, headers: dict[str, str], text: str, code: tuple[int, str], words: str
) -> None:
    with server.client(server.account(name, credits=20)) as user:
        told = user.post("/api/batches/lines", content=text, headers=headers)
        refused(told, *code)
        assert words in told.json()["detail"]
        assert told.json()["detail"].count("nothing was changed") <= 1
        assert user.get("/api/account").json()["balance"] == 20
