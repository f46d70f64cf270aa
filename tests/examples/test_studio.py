"""The example studio end to end: server, worker and provider simulator as processes of their own, on both databases."""

import contextlib
import io
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image, ImageChops

from tests.support.postgres import Server
from tests.support.postgres_databases import migrated_database
from tests.support.server_process import NO_TLS
from tests.support.studio import EXAMPLE, Scene, check, run, visitors

pytestmark = pytest.mark.long_on("postgresql")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def studio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("studio")
    if request.param == "sqlite":
        with run.studio(f"sqlite:///{folder}/studio.db", folder, seconds=0.05) as running:
            yield running
        return
    server: Server = request.getfixturevalue("postgres_server")
    with migrated_database(server) as url, run.studio(url, folder, seconds=0.05) as running:
        yield running


@pytest.fixture
def scene(studio: Any) -> Iterator[Scene]:
    scene = Scene(studio)
    try:
        yield scene
    finally:
        scene.close()


@pytest.mark.req("A1", "A2", "A5", "A12", "A13")
def test_a_picture_is_uploaded_paid_waits_behind_three_busy_slots_and_comes_back_twice_as_large(scene: Scene) -> None:
    bob, ana, eva = scene.person(), scene.person(), scene.person(credits=5)
    small = Image.open(io.BytesIO(check.portrait()))
    scene.plan(hold=True, provider="runninghub", times=3)
    his = bob.upload(check.portrait())
    held = [bob.submit("pose_changer", image=his)["job_id"] for _ in range(3)]
    for job_id in held:
        bob.wait(job_id, "running")
    room = ana.http.get("/api/queue/check", params={"pool": "gpu"}).json()
    assert (room["slots"], room["slots_available"], room["busy"]) == (3, 0, 3)

    picture = ana.upload(check.portrait(), "../../ana.png")
    receipt = ana.submit("image_upscaler", image=picture, scale=2)
    behind = ana.submit("pose_changer", image=picture)
    assert (receipt["status"], receipt["cost"], receipt["new_balance"]) == ("queued", 6, 194)
    # The account's first job ever goes before its second.
    check.until(
        lambda: [ana.job(one["job_id"])["position"] for one in (receipt, behind)] == [1, 2],
        "they are not first and second",
    )
    assert ana.job(receipt["job_id"])["waiting_for"] == "pool_full"
    assert len(scene.tasks("queued", "working")) == 3, "a fourth job was started"

    hers = eva.upload(check.portrait())
    refused = eva.http.post("/api/jobs", json={"tool": "image_upscaler", "payload": {"image": hers}})
    assert (refused.status_code, refused.json()["code"]) == (402, "INSUFFICIENT_CREDITS")
    assert (eva.balance, eva.http.get("/api/jobs").json()["items"]) == (5, [])

    for task in scene.tasks("working"):
        scene.release(task)
    job = ana.wait(receipt["job_id"])
    assert (job["status"], job["error"]) == ("completed", None)
    large = ana.download(job)
    assert large.size == (2 * small.width, 2 * small.height)
    assert ImageChops.difference(large.resize(small.size), small.convert("RGB")).getextrema() < ((60, 60),) * 3
    assert (job["charged"], job["refunded"], job["account"]) == (6, 0, ana.name)
    assert job["waited_in_queue"] > 0
    kinds = [event["kind"] for event in told(ana, job["id"])]
    assert kinds[0] == "submitted"
    assert kinds.index("claimed") < kinds.index("accepted") < kinds.index("completed")
    assert scene.task_of(job)["callbacks"][0]["status"] == 200
    for job_id in (*held, behind["job_id"]):
        person = bob if job_id in held else ana
        assert person.wait(job_id)["status"] == "completed"


def told(person: Any, job_id: str) -> list[dict[str, Any]]:
    """A job's history."""
    headers = {"Accept": "application/json"}
    events: list[dict[str, Any]] = person.http.get(f"/api/jobs/{job_id}/events", headers=headers).json()["items"]
    return events


@pytest.mark.req("A11", "D6", "D7")
def test_every_tool_does_its_work(scene: Scene) -> None:
    ana = scene.person()
    portrait, coat, ball = ana.upload(check.portrait()), ana.upload(check.garment()), ana.upload(check.clip(), "a.gif")
    asked: dict[str, tuple[int, dict[str, Any]]] = {
        "image_upscaler": (12, {"image": portrait, "scale": 4}),
        "pose_changer": (8, {"image": portrait}),
        "outfit_changer": (10, {"image": portrait, "outfit": coat}),
        "video_upscaler": (30, {"video": ball}),
        "try_on": (4, {"person": portrait, "garment": coat}),
        "product": (8, {"image": portrait, "quality": "high"}),
        "freestyle": (8, {"prompt": "a lighthouse", "images": 2}),
        "workflow": (4, {"image": portrait, "prompt": "ink"}),
    }
    before = Image.open(io.BytesIO(check.portrait())).convert("RGB")
    receipts = {tool: ana.submit(tool, **payload) for tool, (_, payload) in asked.items()}
    for tool, (cost, _) in asked.items():
        job = ana.wait(receipts[tool]["job_id"])
        assert (tool, job["status"], job["charged"], job["error"]) == (tool, "completed", cost, None)
        made = ana.download(job)
        if tool == "image_upscaler":
            assert made.size == (4 * before.width, 4 * before.height)
        elif tool == "video_upscaler":
            assert (made.size, made.n_frames) == ((64, 48), 4)
        else:
            assert made.size != before.size or ImageChops.difference(made.convert("RGB"), before).getbbox()
    assert ana.balance == 200 - sum(cost for cost, _ in asked.values())


@pytest.mark.req("A3")
def test_an_account_of_the_plan_single_has_one_active_job_over_all_tools(scene: Scene) -> None:
    ana = scene.person("single")
    picture = ana.upload(check.portrait())
    assert ana.http.get("/api/queue/check-user-active").json()["active"] is False
    scene.plan(hold=True)
    first = ana.submit("image_upscaler", image=picture)["job_id"]
    refused = ana.http.post("/api/jobs", json={"tool": "freestyle", "payload": {"prompt": "x"}})
    assert (refused.status_code, refused.json()["code"], refused.json()["job_id"]) == (409, "ACTIVE_JOB_EXISTS", first)
    assert ana.http.get("/api/jobs/active").json()["job_id"] == first
    ana.wait(first, "running")
    scene.release(scene.task_of(ana.job(first)))
    ana.wait(first)
    assert ana.wait(ana.submit("freestyle", prompt="x")["job_id"])["status"] == "completed"


@pytest.mark.req("A4", "A6")
def test_a_provider_that_fails_is_not_asked_again_and_its_words_and_the_credits_reach_the_user(scene: Scene) -> None:
    ana = scene.person()
    picture = ana.upload(check.portrait())
    for tool, payload in (
        ("pose_changer", {"image": picture}),
        ("freestyle", {"prompt": "x"}),
        ("workflow", {"image": picture, "prompt": "x"}),
    ):
        scene.plan(fail="CUDA out of memory", duplicate=3)
        job = ana.wait(ana.submit(tool, **payload)["job_id"])
        assert (job["status"], job["error"]) == ("failed", "CUDA out of memory")
        assert (job["refunded"], job["attempts"]) == (job["charged"], 1)
        assert ana.http.post(f"/api/jobs/{job['id']}/cancel").json()["changed"] is False
        scene.task_of(job)  # There is one, and no other.
    assert ana.balance == 200
    assert [kind for kind, _ in ana.ledger()].count("refund") == 3


@pytest.mark.req("A5", "A6", "A7")
def test_of_all_words_about_a_job_one_ends_it(scene: Scene) -> None:
    ana = scene.person()
    scene.plan(duplicate=20, verdicts=["succeeded", "failed"])
    job = ana.wait(ana.submit("freestyle", prompt="x")["job_id"])
    assert job["status"] == "completed"
    task = scene.task_of(job)

    def again(_: int) -> list[Any]:
        asked = {"verdict": "failed", "times": 5}
        answers = scene.simulator.post(f"/control/tasks/{task['id']}/callback", json=asked).json()["answers"]
        return list(answers)

    with ThreadPoolExecutor(4) as pool:
        statuses = [status for answers in pool.map(again, range(4)) for status in answers]
    assert set(statuses) == {200}
    assert ana.job(job["id"])["status"] == "completed"
    assert ana.ledger() == [("grant", 200), ("charge", -4)]

    scene.plan(hold=True)
    other = ana.submit("freestyle", prompt="y")["job_id"]
    ana.wait(other, "running")
    held = scene.task_of(ana.job(other))
    forged = scene.simulator.post(
        f"/control/tasks/{held['id']}/callback", json={"verdict": "succeeded", "forge": True}
    ).json()
    assert forged["answers"] == [401]
    assert ana.job(other)["status"] == "running"
    scene.release(held)
    assert ana.wait(other)["status"] == "completed"


@pytest.mark.req("A6", "A7")
def test_a_cancel_tells_the_provider_pays_back_once_and_stays(scene: Scene) -> None:
    ana = scene.person()
    picture = ana.upload(check.portrait())
    scene.plan(hold=True)
    job_id = ana.submit("image_upscaler", image=picture)["job_id"]
    ana.wait(job_id, "running")
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda _: ana.http.post(f"/api/jobs/{job_id}/cancel").json(), range(4))]
    assert sorted(answer["changed"] for answer in answers) == [False, False, False, True]
    check.until(lambda: scene.task_of(ana.job(job_id))["state"] == "cancelled", "the provider was not told")
    task = scene.task_of(ana.job(job_id))
    scene.simulator.post(f"/control/tasks/{task['id']}/callback", json={"verdict": "succeeded"})
    job = ana.job(job_id)
    assert (job["status"], job["refunded"], ana.balance) == ("cancelled", 6, 200)
    assert ana.ledger() == [("grant", 200), ("charge", -6), ("refund", 6)]


@pytest.mark.req("A8", "A9")
def test_a_provider_that_never_answers_is_given_up_and_the_slot_is_free_again(scene: Scene) -> None:
    ana = scene.person()
    picture = ana.upload(check.portrait())
    scene.plan(hold=True)
    asked = ("submit", "pose_changer", f'{{"image": "{picture}"}}', "--account", ana.name)
    job_id = scene.studio.run_ficha(*asked, STUDIO_TIMEOUT_S="1")
    job = ana.wait(job_id)
    assert (job["status"], job["error"]) == ("failed", "the provider did not answer within 1 s")
    assert (job["refunded"], ana.balance) == (8, 200)
    room = ana.http.get("/api/queue/check", params={"pool": "gpu"}).json()
    assert room["busy"] == 0
    check.until(lambda: scene.task_of(job)["state"] == "cancelled", "the provider was not told")


@pytest.mark.req("A8")
def test_the_wait_in_the_provider_queue_ends_after_ten_minutes(scene: Scene) -> None:
    ana = scene.person()
    tools = {tool["name"]: tool for tool in ana.http.get("/api/tools").json()["items"]}
    waits = {name: tool["max_wait_s"] for name, tool in tools.items() if tool["pool"] == "gpu"}
    assert waits == dict.fromkeys(("image_upscaler", "pose_changer", "outfit_changer", "video_upscaler"), 600)


@pytest.mark.req("A10")
def test_the_managers_calls_are_there(scene: Scene) -> None:
    ana = scene.person()
    picture = ana.upload(check.portrait())
    scene.plan(hold=True, times=3)
    asked = {"tool": "pose_changer", "payload": {"image": picture}, "account": ana.name}
    with scene.studio.client(scene.studio.admin) as manager:
        held = [manager.post("/api/queue/enqueue", json=asked).json()["job_id"] for _ in range(3)]
        for job_id in held:
            ana.wait(job_id, "running")
        waiting = manager.post("/api/queue/enqueue", json=asked).json()["job_id"]
        room = manager.get("/api/queue/check", params={"pool": "gpu"}).json()
        assert (room["slots_available"], room["queue_length"]) == (0, 1)
        following = manager.post("/api/queue/process-next", json={"pool": "gpu", "worker": "manager"}).json()
        assert following["leases"] == []
        assert manager.get("/api/queue/check-user-active", params={"account": ana.name}).json()["active"]
        done = {"job_id": held[0], "status": "failed", "error": "stopped by hand"}
        assert manager.post("/api/queue/finish", json=done).json()["changed"] is True
        assert manager.post("/api/queue/finish", json=done).json()["changed"] is False
    assert ana.wait(waiting)["status"] == "completed"
    for task in scene.tasks("working"):
        scene.release(task)
    assert [ana.wait(job_id)["status"] for job_id in held] == ["failed", "completed", "completed"]
    assert ana.ledger()[-1] == ("refund", 8)


@pytest.mark.req("A12", "C6")
def test_an_upload_stands_under_a_reservation_before_the_job_exists(scene: Scene) -> None:
    ana = scene.person("single")
    hold = ana.http.post("/api/reservations", json={}).json()
    blocked = ana.http.post("/api/jobs", json={"tool": "freestyle", "payload": {"prompt": "x"}})
    assert blocked.json()["code"] in ("ACTIVE_JOB_EXISTS", "QUOTA_EXCEEDED")
    asked = {"files": {"file": ("a.png", check.portrait())}, "params": {"reservation": hold["id"]}}
    uploaded = ana.http.post("/api/uploads", **asked).json()["file"]
    [seen] = ana.http.get("/api/reservations").json()["items"]
    assert [file["id"] for file in seen["uploads"]] == [uploaded["id"]]
    job = {"tool": "image_upscaler", "payload": {"image": uploaded["id"]}, "reservation": hold["id"]}
    receipt = ana.http.post("/api/jobs", json=job).json()
    assert ana.wait(receipt["job_id"])["status"] == "completed"


@pytest.mark.req("D10", "D12")
def test_finished_work_is_kept_with_its_files_until_its_owner_removes_it(scene: Scene) -> None:
    ana, eva = scene.person(), scene.person()
    picture = ana.upload(check.portrait(), "ana.png")
    job = ana.wait(ana.submit("image_upscaler", image=picture)["job_id"])
    ana.wait(ana.submit("freestyle", prompt="A Lighthouse")["job_id"])
    [found] = ana.http.get("/api/library", params={"search": "lighthouse"}).json()["items"]
    assert [file["role"] for file in found["files"]] == ["result"]
    [work] = ana.http.get("/api/library", params={"tool": "image_upscaler"}).json()["items"]
    files = {file["role"]: file["id"] for file in work["files"]}
    assert files == {"input": picture, "result": job["result"]["files"][0]["file"]}
    assert eva.http.get("/api/library").json()["items"] == []
    assert eva.http.get(f"/api/files/{files['result']}").status_code == 404
    assert eva.http.delete(f"/api/library/{job['id']}").status_code == 404
    removed = ana.http.delete(f"/api/library/{job['id']}").json()
    assert (removed["changed"], sorted(removed["files"])) == (True, sorted(files.values()))
    assert [ana.http.get(f"/api/files/{file_id}").status_code for file_id in files.values()] == [404, 404]
    assert ana.job(job["id"])["result"] is None
    assert ana.ledger() == [("grant", 200), ("charge", -6), ("charge", -4)]


def test_after_all_this_nothing_is_wrong_with_the_database(scene: Scene) -> None:
    assert scene.studio.run_ficha("verify") == ""


def entered(scene: Scene, account: str) -> httpx.Client:
    """A browser of somebody who has come through the studio's door."""
    with scene.studio.client(None) as nobody:
        token = nobody.post("/studio/enter", json={"account": account}).json()["token"]
    client: httpx.Client = scene.studio.client(token)
    return client


def test_whoever_names_a_demo_account_gets_a_token_for_it_alone(scene: Scene) -> None:
    with scene.studio.client(None) as nobody:
        people = {one["account"]: one["plan"] for one in nobody.get("/studio/demo").json()["people"]}
        assert people == {"ana": "free", "bia": "starter", "caio": "growth", "davi": "pro", "eva": "single"}
        stranger = nobody.post("/studio/enter", json={"account": "root"})
        assert (stranger.status_code, stranger.json()["code"]) == (404, "NOT_FOUND")
        assert nobody.post("/studio/enter", json={"name": "ana"}).json()["code"] == "INVALID_ARGUMENT"
    with entered(scene, "bia") as bia:
        account = bia.get("/api/account").json()
        assert (account["id"], account["plan"]) == ("bia", "starter")
        assert bia.get("/api/admin/accounts").status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"Host": "studio.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
    ids=["foreign name", "foreign page", "sibling page"],
)
def test_the_door_is_closed_to_other_sites(scene: Scene, headers: dict[str, str]) -> None:
    with scene.studio.client(None) as browser:
        refused = browser.post("/studio/enter", json={"account": "ana"}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


@pytest.mark.req("D1")
def test_a_payment_that_is_told_of_twice_is_credited_once_and_a_declined_one_never(scene: Scene) -> None:
    with entered(scene, "caio") as caio, entered(scene, "davi") as davi:
        before = caio.get("/api/account").json()["balance"]
        payment = caio.post("/studio/payments", json={"credits": 50}).json()["id"]
        path = f"/studio/payments/{payment}/pay"
        assert caio.post(path, json={"card": check.DECLINED_CARD}).json()["state"] == "declined"
        assert caio.get("/api/account").json()["balance"] == before
        assert davi.post(path, json={"card": check.GOOD_CARD}).status_code == 404
        with ThreadPoolExecutor(4) as threads:
            paid = list(threads.map(lambda _: caio.post(path, json={"card": check.GOOD_CARD}).json(), range(4)))
        assert {(one["state"], one["balance"]) for one in paid} == {("paid", before + 50)}
        assert caio.get("/api/account").json()["balance"] == before + 50
        # What was paid stays paid, whatever card comes after it.
        assert caio.post(path, json={"card": check.DECLINED_CARD}).json()["state"] == "paid"
        assert caio.post("/studio/payments", json={"credits": 51}).json()["code"] == "INVALID_ARGUMENT"


def test_the_provider_is_told_about_the_callers_next_task_and_no_other(scene: Scene) -> None:
    other = scene.person()
    with entered(scene, "davi") as davi:
        assert davi.post("/studio/simulator", json={"next": "fail"}).json() == {"next": "fail"}
        assert other.wait(other.submit("freestyle", prompt="x")["job_id"])["status"] == "completed"
        asked = {"tool": "freestyle", "payload": {"prompt": "x"}}
        first, second = (davi.post("/api/jobs", json=asked).json()["job_id"] for _ in range(2))
        check.until(
            lambda: (
                {davi.get(f"/api/jobs/{one}").json()["status"] for one in (first, second)} == {"completed", "failed"}
            ),
            "one fails and the other does not",
        )
        assert davi.post("/studio/simulator", json={"next": "explode"}).json()["code"] == "INVALID_ARGUMENT"


def test_the_studios_own_tool_shows_its_pictures_as_they_are_made(scene: Scene) -> None:
    ana = scene.person()
    job = ana.wait(ana.submit("moods", image=ana.upload(check.portrait()), images=3)["job_id"])
    assert (job["status"], job["charged"], job["error"]) == ("completed", 6, None)
    assert [file["name"] for file in job["result"]["files"]] == ["morning.png", "noon.png", "dusk.png"]
    assert [one["kind"] for one in told(ana, job["id"])].count("partial") == 3


def test_the_page_is_served_with_a_policy_that_allows_no_foreign_script(scene: Scene) -> None:
    with scene.studio.client(None) as browser:
        page = browser.get("/studio")
        # Where nobody has built it, it says how.
        assert page.status_code == (200 if (EXAMPLE / "pages" / "index.html").exists() else 503)
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in page.headers["Content-Security-Policy"]
        assert browser.get("/studio/assets/..%2f..%2fapp.py").status_code == 404
        for sample in browser.get("/studio/demo").json()["samples"]:
            answer = browser.get(f"/studio/samples/{sample['name']}")
            assert (answer.status_code, answer.headers["Content-Type"]) == (200, sample["media_type"])
            assert Image.open(io.BytesIO(answer.content)).width >= 100
        assert browser.get("/studio/samples/secret.png").status_code == 404
        # Everything else is Ficha's own.
        assert browser.get("/api/openapi.json").json()["info"]["title"] == "Ficha"


def test_visitors_come_by_themselves_pay_and_stay_within_their_means(scene: Scene) -> None:
    visitor = visitors.Visitor(scene.studio.url, visitors.VISITORS[-1], random.Random(7))
    try:
        for _ in range(3):
            visitor.come()
        with entered(scene, visitor.person.account) as browser:
            jobs = browser.get("/api/jobs").json()["items"]
            assert len(jobs) == 3
            before = browser.get("/api/account").json()["balance"]
            visitor.pay()
            assert browser.get("/api/account").json()["balance"] in (before + 50, before + 200)
    finally:
        visitor.close()


class Eager(random.Random):
    """Chance that grants every wish."""

    def random(self) -> float:
        return 0.0


def test_a_visitor_of_the_highest_plan_orders_a_batch_at_times(scene: Scene) -> None:
    visitor = visitors.Visitor(scene.studio.url, visitors.VISITORS[-1], Eager(7))
    try:
        visitor.come()
    finally:
        visitor.close()
    with entered(scene, visitor.person.account) as browser:
        [batch] = browser.get("/api/batches").json()["items"]
        assert 4 <= batch["total"] <= 8


@pytest.mark.long
@pytest.mark.req("D8")
def test_a_submit_starts_a_worker_by_http_where_none_runs(tmp_path: Path) -> None:
    with run.studio(f"sqlite:///{tmp_path}/studio.db", tmp_path, seconds=0.05, serverless=True) as running:
        scene = Scene(running)
        ana = scene.person()
        job = ana.wait(ana.submit("image_upscaler", image=ana.upload(check.portrait()))["job_id"])
        assert (job["status"], ana.download(job).size) == ("completed", (128, 192))
        assert int(httpx.get(running.trigger, trust_env=False, verify=NO_TLS).text) >= 1
        assert "worker" not in {program.name for program in running.programs}
        scene.close()


class Demonstration:
    """The whole demonstration, as a person starts it."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C stops everything" in line:
                break
        assert "Ctrl-C stops everything" in self.said, self.said

    def key(self, scope: str) -> str:
        """The key of this scope that it printed, to sign in to the console with."""
        [key] = re.findall(rf"ficha_{scope}_\w+", self.said)
        return str(key)

    def client(self, scope: str) -> httpx.Client:
        [url] = set(re.findall(r"http://127\.0\.0\.1:\d+", self.said))
        headers = {"Authorization": f"Bearer {self.key(scope)}"}
        return httpx.Client(base_url=url, headers=headers, trust_env=False, verify=NO_TLS, timeout=30)

    def interrupt(self) -> int:
        """Sends it SIGINT, and returns its exit status."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        return self.process.returncode


def programs(folder: Path) -> list[str]:
    """The processes whose data is in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            if f"{folder}/".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def test_the_demonstration_stops_with_all_it_started(tmp_path: Path) -> None:
    demo = Demonstration(sys.executable, str(EXAMPLE / "run.py"), "--port", "0", "--data", str(tmp_path))
    assert {"server.py", "visitors.py", "ficha.cli", "provider_simulator"} <= set(" ".join(programs(tmp_path)).split())
    with demo.client("admin") as operator, demo.client("viewer") as spectator:
        accounts = operator.get("/api/admin/accounts").json()["items"]
        assert {one["plan"] for one in accounts} == {"single", "free", "starter", "growth", "pro"}
        assert spectator.get("/api/admin/accounts").status_code == 200
        assert spectator.post("/api/admin/accounts/ana/grant", json={"amount": 7}).status_code == 403
        # The operator's own endpoint hears of jobs that end, so that the console's page has something to show.
        [endpoint] = operator.get("/api/webhook-endpoints").json()["items"]
        assert endpoint["url"].endswith("/studio/webhooks")
        check.until(lambda: delivered(operator) > 0, "no message arrived")
        assert operator.post("/studio/webhooks", json={"type": "job.completed"}).status_code == 401
    assert (demo.interrupt(), programs(tmp_path)) == (0, [])


def delivered(operator: httpx.Client) -> int:
    """How many messages to the operator's own endpoints have arrived."""
    return len(operator.get("/api/webhook-deliveries", params={"state": "delivered"}).json()["items"])


@pytest.mark.long
def test_make_demo_stops_with_all_it_started_when_make_alone_is_interrupted_and_goes_on_with_its_data(
    tmp_path: Path,
) -> None:
    command = ("make", "-o", "setup", "-o", "web", "demo", f"ARGS=--port 0 --data {tmp_path}")
    first = Demonstration(*command)
    with first.client("admin") as operator:
        assert operator.post("/api/admin/accounts/ana/grant", json={"amount": 7}).status_code == 200
    # GNU make waits for what it started, and then ends itself by the signal that it got.
    assert (first.interrupt(), programs(tmp_path)) == (-signal.SIGINT, [])
    second = Demonstration(*command)
    with second.client("admin") as operator:
        assert operator.get("/api/admin/accounts/ana").json()["balance"] == 47
        operator.headers["Authorization"] = f"Bearer {first.key('admin')}"
        assert operator.get("/api/admin/accounts").status_code == 401, "a key of the first run is valid"
    assert (second.interrupt(), programs(tmp_path)) == (-signal.SIGINT, [])


@pytest.mark.long
def test_make_demo_in_the_background_stops_with_all_it_started_when_make_ends(tmp_path: Path) -> None:
    """A shell starts what it puts in the background with SIGINT ignored."""
    make = f"make -o setup -o web demo 'ARGS=--port 0 --data {tmp_path}'"
    demo = Demonstration("sh", "-c", f"trap '' INT; exec {make}")
    demo.process.terminate()
    demo.process.communicate(timeout=60)
    assert (demo.process.returncode, programs(tmp_path)) == (-signal.SIGTERM, [])


@pytest.mark.long
def test_the_check_goes_through() -> None:
    """The tests above do the same and more, on processes that they share."""
    done = subprocess.run(
        [sys.executable, "check.py"], cwd=EXAMPLE, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the picture was 64 x 96 and is 128 x 192" in done.stdout
    assert "in the provider's own words: CUDA out of memory" in done.stdout
    assert done.stdout.endswith("All of it was as it must be.\n")


@pytest.mark.req("D3", "D4", "D5")
def test_the_plans_are_those_of_the_requirements() -> None:
    text = (EXAMPLE / "app.py").read_text()
    for line in (
        'Plan("single", priority=50, max_active=1)',
        'Plan("free", priority=50, max_running=1, per_hour=10)',
        'Plan("starter", priority=30, max_running=2, per_hour=50)',
        'Plan("growth", priority=20, max_running=3, per_hour=100)',
        'Plan("pro", priority=10, max_running=4, per_hour=999)',
        'Pool("gpu", slots=3)',
        "first_job_boost=20",
    ):
        assert line in text
