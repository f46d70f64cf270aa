"""Stored JSON over HTTP: every answer and stream has the very text that was stored."""

import json

import httpx

from tests.support.server_process import Served

VALUES = "[1e16,-0.0,1.0,100,1e308,5e-324,9007199254740991]"
"""Numbers that a parser may bend, as they are stored."""


def test_answers_and_streams_have_the_text_that_is_stored(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user, server.client(server.service) as service:

        def told(path: str, body: str, client: httpx.Client = service) -> str:
            answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
            answer.raise_for_status()
            return answer.text

        payload = f'"payload":{{"values":{VALUES}}}'
        job = json.loads(told("/api/jobs", f'{{"tool":"anything",{payload}}}', user))["job_id"]
        first = json.dumps(server.take(job))[:-1]
        step = told("/api/worker/step", f'{first},"name":"same","result":{VALUES}}}')
        assert step.endswith(f'"result":{VALUES}}}')
        told("/api/worker/checkpoint", f'{first},"name":"HALF","data":{VALUES}}}')
        told("/api/worker/report", f'{first},"partial":{VALUES}}}')
        told("/api/worker/finish", f'{first},"outcome":"returned"}}')

        claimed = told("/api/worker/claim", '{"worker":"second","pools":["cpu"],"limit":1000}')
        assert f'{payload},"attempts"' in claimed
        assert f'"resume_data":{VALUES},"steps":{{"same":{VALUES}}}' in claimed
        lease = next(lease for lease in json.loads(claimed)["leases"] if lease["job_id"] == job)
        second = json.dumps({"job_id": job, "epoch": lease["epoch"]})[:-1]
        told("/api/worker/finish", f'{second},"outcome":"completed","result":{VALUES}}}')

        shown = [f'{payload},"result":{VALUES},', f'"resume_data":{VALUES},"partial":{VALUES},']
        for client in (service, user):
            whole = client.get(f"/api/jobs/{job}").text
            stream = client.get(f"/api/jobs/{job}/events", headers={"Accept": "text/event-stream"}).text
            assert all(part in text for part in shown for text in (whole, stream))
            # A user does not see where the job would resume.
            shown[1] = shown[1].replace(f'"resume_data":{VALUES}', '"resume_data":null')
