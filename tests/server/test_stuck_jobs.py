"""The eight operations of recovery over real HTTP, with jobs that are really stuck: their worker says nothing more. The
clock is moved by the test."""

import pytest

from tests.server.clocked_site import HOUR, Site


@pytest.mark.req("E5")
async def test_stuck_jobs_are_shown_recovered_one_by_one_and_all(site: Site) -> None:
    batch, jobs = await site.batch("ana", 6)
    leases = await site.claim(4)
    for lease in leases[:2]:
        await site.post("/api/worker/checkpoint", {**lease, "name": "DRAWN", "progress": 50})
    site.clock.advance(30)
    await site.post("/api/worker/finish", {**leases[3], "outcome": "completed", "result": 1})
    assert (await site.get("/api/system/processing-stats"))["stuck"] == 0
    assert (await site.get("/api/system/stuck"))["items"] == []

    site.clock.advance(570)
    assert (await site.get("/api/system/stuck"))["items"] == []
    site.clock.advance(0.001)

    assert (await site.get("/api/system/health"))["status"] == "ok"
    stats = await site.get("/api/system/processing-stats")
    assert (stats["total"], stats["stuck"], stats["dead"]) == (5, 3, 0)
    assert stats["by_status"] == {"queued": 2, "running": 3}
    assert stats["by_checkpoint"] == {"DRAWN": 2, "": 1}
    assert stats["avg_run_s"] == pytest.approx(30)
    stuck = [lease["job_id"] for lease in leases[:3]]
    found = (await site.get("/api/system/stuck"))["items"]
    assert sorted(job["id"] for job in found) == sorted(stuck)
    assert {job["locked_by"] for job in found} == {"w1"}
    told = await site.get(f"/api/system/batch-status/{batch}")
    assert (told["total"], told["progress"], told["account"]) == (6, 16, "ana")
    assert told["by_status"] == {"queued": 2, "running": 3, "completed": 1}
    assert told["by_checkpoint"] == {"DRAWN": 2, "": 3}

    one = await site.post(f"/api/system/recover/{stuck[0]}")
    assert (one["job_id"], one["act"], one["refunded"]) == (stuck[0], "requeued", 0)
    assert (await site.post(f"/api/system/recover/{stuck[0]}"))["act"] == "nothing"
    assert (await site.get("/api/system/processing-stats"))["stuck"] == 2

    swept = await site.post("/api/system/recover-stuck")
    assert swept["jobs"] == {"requeued": 2}
    assert (await site.get("/api/system/stuck"))["items"] == []
    told = await site.get(f"/api/system/batch-status/{batch}")
    assert (told["by_status"], told["by_checkpoint"]) == ({"queued": 5, "completed": 1}, {"DRAWN": 2, "": 3})

    # The worker that comes back writes nothing, and another one goes on from the checkpoint.
    late = await site.post("/api/worker/finish", {**leases[0], "outcome": "completed", "result": 2}, 409)
    assert late["code"] == "LEASE_LOST"
    # Jobs with a lost run are claimed first, and none beside them.
    others = [job for job in jobs if job not in stuck and job != leases[3]["job_id"]]
    asked = {"worker": "w2", "pools": ["default"], "limit": 10}
    for expected in (stuck, others):
        again = {lease["job_id"]: lease for lease in (await site.post("/api/worker/claim", asked))["leases"]}
        assert sorted(again) == sorted(expected)
        if expected is stuck:
            assert again[stuck[0]]["checkpoint"] == "DRAWN"
        for lease in again.values():
            name = {"job_id": lease["job_id"], "epoch": lease["epoch"]}
            await site.post("/api/worker/finish", {**name, "outcome": "completed", "result": 3})
    assert (await site.get(f"/api/system/batch-status/{batch}"))["by_checkpoint"] == {}
    assert await site.balance("ana") == 100 - 30
    acts = [line["act"] for line in (await site.get("/api/admin/audit"))["items"]]
    assert acts.count("recover") == 4
    await site.is_right()


@pytest.mark.req("E5")
async def test_an_interrupted_batch_is_resumed(site: Site) -> None:
    batch, jobs = await site.batch("ana", 4)
    leases = await site.claim(3)
    await site.post("/api/worker/finish", {**leases[0], "outcome": "failed", "error": "out of memory"})
    await site.post("/api/worker/finish", {**leases[1], "outcome": "completed", "result": 1})
    site.clock.advance(61)
    told = await site.get(f"/api/system/batch-status/{batch}")
    assert told["by_status"] == {"queued": 1, "running": 1, "completed": 1, "failed": 1}
    assert await site.balance("ana") == 100 - 15

    resumed = await site.post(f"/api/system/resume-batch/{batch}")
    assert (resumed["resumed"], resumed["refused"]) == (2, 0)
    assert (await site.post(f"/api/system/resume-batch/{batch}"))["resumed"] == 0
    told = await site.get(f"/api/system/batch-status/{batch}")
    assert told["by_status"] == {"queued": 3, "completed": 1}
    # The job with a lost run runs without the others beside it.
    for count in (1, 2):
        again = await site.claim(10, "w2")
        assert len(again) == count
        for lease in again:
            await site.post("/api/worker/finish", {**lease, "outcome": "completed", "result": 2})
    told = await site.get(f"/api/system/batch-status/{batch}")
    assert (told["by_status"], told["progress"]) == ({"completed": 4}, 100)
    assert await site.balance("ana") == 100 - 20
    missing = await site.post("/api/system/resume-batch/0198f1a2-7c3e-7d4b-9a51-3f6c2e8b7a10", status=404)
    assert missing["code"] == "NOT_FOUND"
    assert len(jobs) == 4
    await site.is_right()


@pytest.mark.req("E5")
async def test_what_is_over_a_day_old_is_failed_refunded_and_cleared_away(site: Site) -> None:
    asked = {"tool": "film", "payload": {"n": 1}, "account": "ana", "idempotency_key": "order-1"}
    job = (await site.post("/api/jobs", asked, 201))["job_id"]
    await site.post("/api/reservations", {"account": "ana", "ttl_s": 60}, 201)
    await site.claim(1)
    site.clock.advance(12 * HOUR)
    assert (await site.post("/api/system/recover-stuck"))["jobs"] == {"requeued": 1}
    (lease,) = await site.claim(1)
    site.clock.advance(12 * HOUR - 30)
    await site.post("/api/worker/heartbeat", {"leases": [lease]})
    assert (await site.post("/api/system/cleanup-old"))["jobs"] == {}
    site.clock.advance(30)

    swept = await site.post("/api/system/cleanup-old")
    assert (swept["jobs"], swept["keys"]) == ({"failed": 1}, 1)
    failed = await site.get(f"/api/jobs/{job}")
    assert (failed["status"], failed["refunded"]) == ("failed", 7)
    assert "24 hours after its first start" in failed["error"]
    assert await site.balance("ana") == 100
    assert (await site.get("/api/admin/idempotency-keys", account="ana"))["items"] == []
    assert (await site.get("/api/admin/dead"))["items"][0]["id"] == job
    await site.is_right()


@pytest.mark.req("C7")
async def test_one_key_is_looked_up_and_reservations_are_told_by_state_and_count(site: Site) -> None:
    for key in ("order-1", "order-2"):
        asked = {"tool": "draw", "payload": {"n": 1}, "account": "ana", "idempotency_key": key}
        job = (await site.post("/api/jobs", asked, 201))["job_id"]
    path = "/api/admin/idempotency-keys"
    found = (await site.get(path, account="ana", key="order-2"))["items"]
    assert [(key["key"], key["job_id"], key["scope"]) for key in found] == [("order-2", job, "submit")]
    assert (await site.get(path, account="ana", key="order-3"))["items"] == []
    assert (await site.get(path, account="bob", key="order-2"))["items"] == []
    alone = await site.client.get(path, params={"key": "order-2"})
    assert (alone.status_code, "name the account too" in alone.json()["detail"]) == (422, True)

    holds = [(await site.post("/api/reservations", {"account": "ana", "ttl_s": ttl}, 201))["id"] for ttl in (60,) * 4]
    await site.post(f"/api/reservations/{holds[0]}/release")
    await site.post(f"/api/reservations/{holds[1]}/consume")
    site.clock.advance(30)
    later = (await site.post("/api/reservations", {"account": "ana", "ttl_s": 60}, 201))["id"]
    site.clock.advance(30)
    counts = await site.get("/api/admin/reservations/counts")
    assert counts == {"by_state": {"active": 1, "consumed": 1, "expired": 2, "released": 1}, "total": 5}
    assert (await site.get("/api/admin/reservations/counts", account="bob"))["total"] == 0
    for state, ids in (("active", [later]), ("expired", [holds[3], holds[2]]), ("released", [holds[0]])):
        for route in ("/api/admin/reservations", "/api/reservations"):
            listed = (await site.get(route, state=state))["items"]
            assert [(hold["id"], hold["state"]) for hold in listed] == [(hold, state) for hold in ids]
    wrong = await site.client.get("/api/admin/reservations", params={"state": "open"})
    assert (wrong.status_code, "active, consumed" in wrong.json()["detail"]) == (422, True)
