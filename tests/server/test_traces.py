"""A request's trace: taken from its headers, stored with the job, linked from the job's page."""

import pytest
from msgspec.structs import replace

from ficha import Ficha
from ficha.environment import SettingError
from ficha.server.routes.searches import trace_url_of
from ficha.server.settings import Settings
from tests.support.server_process import SECRET, Served

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SUBMIT = {"tool": "upscale", "payload": {"image": "x"}}


@pytest.mark.req("B9")
def test_a_job_belongs_to_the_trace_of_the_request_that_submits_it(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:

        def submitted(headers: list[tuple[str, str]]) -> str | None:
            answer = user.post("/api/jobs", json=SUBMIT, headers=headers)
            assert answer.status_code == 201, answer.text
            job: dict[str, str | None] = user.get(answer.headers["location"]).json()
            return job["traceparent"]

        assert submitted([("traceparent", PARENT), ("tracestate", "a=1")]) == PARENT
        assert submitted([]) is None
        # As the standard has it: a bad one is as none, and is no reason to refuse a request.
        assert submitted([("traceparent", PARENT.replace("4bf9", "4bfg"))]) is None
        assert submitted([("traceparent", PARENT), ("traceparent", PARENT)]) is None

        batch = {"items": [{"tool": "upscale", "payload": {"image": "x"}}] * 2}
        made = user.post("/api/batches", json=batch, headers={"traceparent": PARENT}).json()
        listed = user.get("/api/jobs", params={"batch": made["batch_id"]}).json()["items"]
        assert [job["traceparent"] for job in listed] == [PARENT] * 2


async def test_a_trace_url_names_the_trace_or_the_correlation_id() -> None:
    for bad in ("https://traces.example.com/{trace}", "javascript:{trace_id}"):
        with pytest.raises(SettingError, match=r"has \{trace_id\} or \{correlation_id\} in it"):
            Settings(secret=SECRET, trace_url=bad)
    both = Settings(secret=SECRET, trace_url="https://traces.example.com/{trace_id}?q={correlation_id}").trace_url
    async with Ficha("memory:", sweep_by_itself=False) as app:
        app.tool(name="any")(_any)
        await app.open_account("ana")
        bare = await app.job((await app.submit("any", account="ana")).job_id)
    named = replace(bare, correlation_id="a/b", traceparent=PARENT)
    assert trace_url_of(both, named) == f"https://traces.example.com/{PARENT[3:35]}?q=a%2Fb"
    assert trace_url_of(both, bare) is None
    assert trace_url_of("https://t.example.com/{trace_id}", bare) == f"https://t.example.com/{bare.id.replace('-', '')}"
    assert trace_url_of(None, named) is None


async def _any(job: object) -> None:
    return None
