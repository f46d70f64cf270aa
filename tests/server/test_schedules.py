"""Schedules over HTTP and with the client."""

from datetime import UTC, datetime

import httpx

from ficha.client import AsyncClient
from ficha.operations import ScheduleFirer
from tests.server.clocked_site import Site

PATH = "/api/admin/schedules"


async def test_a_schedule_is_shown_paused_run_resumed_and_fired(site: Site) -> None:
    (shown,) = (await site.get(PATH))["items"]
    assert (shown["name"], shown["cron"], shown["tz"]) == ("yearly", "@yearly", "America/Sao_Paulo")
    assert (shown["tool"], shown["account"], shown["missed"], shown["state"]) == ("draw", None, "skip", "active")
    assert (shown["next_at"], shown["last"]) == ("2027-01-01T03:00:00Z", None)
    paused = await site.post(f"{PATH}/yearly/pause")
    assert (paused["state"], paused["next_at"]) == ("paused", None)
    made = await site.post(f"{PATH}/yearly/run", {"key": "by-hand"}, 201)
    again = await site.client.post(f"{PATH}/yearly/run", headers={"Idempotency-Key": "by-hand"})
    assert (again.status_code, again.json()["job_id"], made["cost"]) == (200, made["job_id"], 0)
    assert (await site.post(f"{PATH}/yearly/resume"))["state"] == "active"
    (shown,) = (await site.get(PATH))["items"]
    assert (shown["last"]["job_id"], shown["last"]["slot_at"], shown["fired"]) == (made["job_id"], None, 1)
    for act in ("pause", "resume", "run"):
        missing = await site.post(f"{PATH}/other/{act}", status=404)
        assert missing["code"] == "NOT_FOUND"
    lines = (await site.get("/api/admin/audit", target="schedule yearly"))["items"]
    acts = ["resume_schedule", "run_schedule", "run_schedule", "pause_schedule"]
    assert [line["act"] for line in lines] == acts

    site.clock.now = int(datetime(2027, 1, 1, 3, tzinfo=UTC).timestamp()) * 1_000_000
    await ScheduleFirer(site.app).fire()
    (shown,) = (await site.get(PATH))["items"]
    assert (shown["last"]["slot_at"], shown["fired"]) == ("2027-01-01T03:00:00Z", 2)
    assert shown["next_at"] == "2028-01-01T03:00:00Z"


async def test_the_client_has_them_too_and_a_viewer_only_looks(site: Site) -> None:
    async with AsyncClient(str(site.client.base_url), site.key) as client:
        assert (await client.pause_schedule("yearly")).state == "paused"
        assert (await client.run_schedule("yearly", key="k1")).cost == 0
        assert (await client.resume_schedule("yearly")).state == "active"
        assert [schedule.fired for schedule in await client.schedules()] == [1]
        assert await client.count_reservations() == {"active": 0, "consumed": 0, "expired": 0, "released": 0}
    viewer = (await site.app.create_api_key("looks", scope="viewer")).secret
    headers = {"Authorization": f"Bearer {viewer}"}
    async with httpx.AsyncClient(base_url=site.client.base_url, headers=headers, trust_env=False) as looking:
        assert (await looking.get(PATH)).status_code == 200
        assert (await looking.post(f"{PATH}/yearly/pause")).status_code == 403
        assert (await looking.get(PATH, headers={"Authorization": ""})).status_code == 401
