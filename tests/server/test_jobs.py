"""A person's walk over HTTP, and what each answer carries."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.server.test_bad_input import refused
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

SUBMIT = {"tool": "upscale", "payload": {"image": "x"}}


@pytest.mark.req("D2", "C3", "A13")
def test_a_person_opens_an_account_buys_submits_cancels_and_sees_the_refund(server: Served, name: str) -> None:
    with server.client(server.admin) as admin:
        opened = admin.post("/api/admin/accounts", json={"account": name, "plan": "pro"})
        assert (opened.status_code, opened.json()["balance"]) == (201, 0)
        bought = admin.post(f"/api/admin/accounts/{name}/grant", json={"amount": 20, "reason": "bought", "key": "p1"})
        assert bought.json()["balance"] == 20
        assert (bought.json()["entry"], bought.json()["idempotent_hit"]) == (1, False)
        again = admin.post(f"/api/admin/accounts/{name}/grant", json={"amount": 20, "reason": "bought", "key": "p1"})
        assert again.json()["balance"] == 20
        assert (again.json()["entry"], again.json()["idempotent_hit"]) == (1, True)
        kept = admin.post("/api/admin/accounts", json={"account": name, "credits": 5, "exist_ok": True})
        assert (kept.status_code, kept.json()["balance"], kept.json()["plan"]) == (201, 20, "pro")
        key = admin.post("/api/admin/api-keys", json={"name": name, "scope": "user", "account": name}).json()["secret"]
    with server.client(key) as user:
        submitted = user.post("/api/jobs", json=SUBMIT, headers={"Idempotency-Key": "first"})
        assert submitted.status_code == 201
        receipt = submitted.json()
        assert receipt.keys() == {
            *("success", "job_id", "status", "idempotent_hit", "position", "priority", "cost", "new_balance"),
            *("batch_id", "jobs", "quota_warnings", "cost_limit_warning", "rate", "job", "left_out", "refusal"),
        }
        assert (receipt["success"], receipt["status"], receipt["cost"], receipt["new_balance"]) == (
            True,
            "queued",
            5,
            15,
        )
        assert receipt["position"] >= 1
        assert submitted.headers["location"] == f"/api/jobs/{receipt['job_id']}"
        assert submitted.headers["ratelimit-policy"] == '"submits";q=999;w=3600'
        assert submitted.headers["ratelimit"].startswith('"submits";r=998;t=')

        job = user.get(submitted.headers["location"]).json()
        assert (job["id"], job["account"], job["charged"], job["refunded"]) == (receipt["job_id"], name, 5, 0)
        assert job["created_at"].endswith("Z")
        assert user.get("/api/jobs/active").json()["job_id"] == job["id"]

        cancelled = user.post(f"/api/jobs/{job['id']}/cancel").json()
        assert (cancelled["status"], cancelled["changed"]) == ("cancelled", True)
        assert (cancelled["refunded"], cancelled["new_balance"]) == (5, 20)
        assert user.post(f"/api/jobs/{job['id']}/cancel").json()["changed"] is False
        lines = user.get("/api/account/ledger").json()["items"]
        assert [(line["kind"], line["amount"]) for line in lines] == [("refund", 5), ("charge", -5), ("grant", 20)]
        assert user.get("/api/jobs/active").json() == {
            "active": False, "job_id": None, "status": None, "tool": None, "job": None,
        }  # fmt: skip
        account = user.get("/api/account").json()
        assert (account["balance"], account["limits"]["max_running"]) == (20, 4)


@pytest.mark.req("C1")
def test_a_repeat_gets_the_first_job_and_is_200(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        first = user.post("/api/jobs", json={**SUBMIT, "idempotency_key": "k"})
        again = user.post("/api/jobs", json=SUBMIT, headers={"Idempotency-Key": '"k"'})
        other = user.post("/api/jobs", json={**SUBMIT, "payload": {"image": "y"}, "idempotency_key": "k"})

        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json()["job_id"] == first.json()["job_id"]
        assert again.json()["idempotent_hit"] is True
        assert again.json()["new_balance"] == 95
        refused(other, 422, "IDEMPOTENCY_MISMATCH")


@pytest.mark.req("C3")
def test_each_refusal_has_its_status_and_says_whether_to_try_again(server: Served, name: str) -> None:
    with server.client(server.account(name, credits=4)) as user:
        problem = refused(user.post("/api/jobs", json=SUBMIT), 402, "INSUFFICIENT_CREDITS")
        assert (problem["have"], problem["need"], problem["retryable"]) == (4, 5, False)
        assert user.get("/api/account").json()["balance"] == 4
    with server.client(server.account(f"{name}-free", plan="free")) as user:
        answers = [user.post("/api/jobs", json=SUBMIT) for _ in range(11)]
        problem = refused(answers[-1], 429, "RATE_LIMITED")
        assert problem["retryable"] is True
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 3600
        assert answers[-2].headers["ratelimit"].startswith('"submits";r=0;')
    with server.client(server.account(f"{name}-thrifty", plan="thrifty")) as user:
        warned = [user.post("/api/jobs", json=SUBMIT).json()["cost_limit_warning"] for _ in range(4)]
        assert warned[-1]
        assert refused(user.post("/api/jobs", json=SUBMIT), 402, "COST_LIMIT")["retryable"] is False


def heard(answer: httpx.Response) -> str:
    """What document 002's client makes of an answer: it looks at `success` and `error` alone, whatever the status."""
    told = answer.json()
    if told.get("success"):
        return f"job {told['job_id']}"
    error = told.get("error", "")
    for limit in ("Quota exceeded", "Cost limit"):
        if limit in error:
            return limit
    return f"transient: {error or 'nobody knows what'}"


@pytest.mark.req("C5")
def test_a_client_that_reads_success_and_error_alone_understands_a_refusal(server: Served, name: str) -> None:
    for path in ("/api/jobs", "/api/queue/enqueue"):
        with server.client(server.account(f"{name}{path}", plan="thrifty", credits=100)) as user:
            for _ in range(4):
                assert heard(user.post(path, json=SUBMIT)).startswith("job ")
            assert heard(user.post(path, json=SUBMIT)) == "Cost limit"
        with server.client(server.account(f"{name}{path} trio", plan="trio")) as user:
            for _ in range(3):
                user.post(path, json=SUBMIT)
            assert heard(user.post(path, json=SUBMIT)) == "Quota exceeded"
        with server.client(server.account(f"{name}{path} poor", credits=1)) as user:
            for asked, status in (
                ({"json": SUBMIT}, 402),
                ({"json": {"tool": "nothing"}}, 404),
                ({"json": {"tool": "upscale", "payload": {}}}, 422),
                ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
                ({"content": b" " * 3_000_000, "headers": {"Content-Type": "application/json"}}, 413),
                ({"content": b"x", "headers": {"Content-Type": "text/plain"}}, 415),
                ({"json": SUBMIT, "headers": {"Authorization": "Bearer nonsense"}}, 401),
            ):
                answer = user.post(path, **asked)
                problem = answer.json()
                assert (answer.status_code, problem["success"]) == (status, False)
                assert problem["error"] == f"{problem['title']}: {problem['detail']}"


@pytest.mark.req("A3")
def test_a_plan_with_one_active_job_names_it(server: Served, name: str) -> None:
    with server.client(server.account(name, plan="single")) as user:
        assert user.get("/api/queue/check-user-active").json()["active"] is False
        first = user.post("/api/jobs", json=SUBMIT).json()["job_id"]

        problem = refused(user.post("/api/jobs", json=SUBMIT), 409, "ACTIVE_JOB_EXISTS")

        assert problem["job_id"] == first
        assert user.get("/api/queue/check-user-active").json()["job_id"] == first


def test_a_quote_tells_what_a_submit_would_and_changes_nothing(server: Served, name: str) -> None:
    with server.client(server.account(name, credits=9)) as user:
        before = user.get("/api/account").json()
        quote = user.post("/api/quote", json=SUBMIT).json()
        assert (quote["admitted"], quote["cost"], quote["new_balance"], quote["refusal"]) == (True, 5, 4, None)
        assert quote["position"] >= 1
        assert user.get("/api/account").json() == before
        receipt = user.post("/api/jobs", json=SUBMIT).json()
        assert (receipt["cost"], receipt["new_balance"], receipt["priority"]) == (5, 4, quote["priority"])

        dear = user.post("/api/quote", json=SUBMIT).json()
        assert (dear["admitted"], dear["refusal"]["code"], dear["balance"]) == (False, "INSUFFICIENT_CREDITS", 4)


def test_a_poller_is_told_nothing_twice(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        job = user.post("/api/jobs", json=SUBMIT).json()["job_id"]
        first = user.get(f"/api/jobs/{job}")
        # Where it stands may change while others submit and leave, and then that is news.
        tag = first.headers["etag"]
        same = user.get(f"/api/jobs/{job}", headers={"If-None-Match": tag})
        assert same.status_code == 304 or same.json()["position"] != first.json()["position"]

        user.post(f"/api/jobs/{job}/cancel")
        changed = user.get(f"/api/jobs/{job}", headers={"If-None-Match": tag})
        assert (changed.status_code, changed.json()["status"]) == (200, "cancelled")
        ended = changed.headers["etag"]
        assert user.get(f"/api/jobs/{job}", headers={"If-None-Match": ended}).status_code == 304


def test_a_caller_that_would_rather_wait_gets_the_end(server: Served, name: str) -> None:
    body = {"tool": "embed", "payload": {"text": name}}
    key = server.account(name)
    with server.client(key) as user, server.client(server.service) as service, ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(user.post, "/api/jobs", json=body, headers={"Prefer": "wait=20"})
        lease = server.take(_job_of(server, name))
        service.post("/api/worker/finish", json={**lease, "outcome": "completed", "result": 7}).raise_for_status()
        answer = waiting.result()
    assert answer.status_code == 201
    assert answer.headers["preference-applied"] == "wait=20"
    assert (answer.json()["status"], answer.json()["job"]["result"]) == ("completed", 7)


def _job_of(server: Served, account: str) -> str:
    """The job that the account has, once it is there."""
    with server.client(server.service) as service:
        for _ in range(200):
            found = service.get("/api/jobs/active", params={"account": account}).json()["job_id"]
            if found is not None:
                return str(found)
    raise AssertionError("there was no job")


def test_a_wait_that_is_too_short_tells_how_it_stands(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        answer = user.post("/api/jobs", json=SUBMIT, headers={"Prefer": "respond-async, wait=1"})

        assert answer.headers["preference-applied"] == "wait=1"
        assert answer.json()["job"]["status"] == "queued"


@pytest.mark.req("C2")
def test_a_reservation_holds_a_slot_until_it_is_used_or_released(server: Served, name: str) -> None:
    with server.client(server.account(name, plan="single")) as user:
        hold = user.post("/api/reservations", json={"ttl_s": 60})
        assert hold.status_code == 201
        assert user.post("/api/reservations").json()["code"] in ("ACTIVE_JOB_EXISTS", "QUOTA_EXCEEDED")
        used = user.post("/api/jobs", json={**SUBMIT, "reservation": hold.json()["id"]})
        assert used.status_code == 201
        held = user.get("/api/reservations").json()["items"]
        assert [(one["state"], one["job_id"]) for one in held] == [("consumed", used.json()["job_id"])]
        refused(user.post(f"/api/reservations/{hold.json()['id']}/release"), 409, "INVALID_STATE")


@pytest.mark.req("E6")
def test_a_batch_is_all_or_none_and_cancelled_as_one(server: Served, name: str) -> None:
    with server.client(server.account(name, credits=20)) as user:
        items = [{"tool": "upscale", "payload": {"image": str(n)}} for n in range(4)]
        refused(user.post("/api/batches", json={"items": [*items, items[0]]}), 402, "INSUFFICIENT_CREDITS")
        batch = user.post("/api/batches", json={"items": items})
        assert batch.headers["location"] == f"/api/batches/{batch.json()['batch_id']}"
        found = user.get(batch.headers["location"]).json()
        assert (found["total"], found["by_status"], found["progress"]) == (4, {"queued": 4}, 0)
        grown = user.get("/api/jobs", params={"batch": found["id"], "limit": 3}).json()
        assert len(grown["items"]) == 3
        rest = user.get("/api/jobs", params={"batch": found["id"], "cursor": grown["next"]}).json()
        assert (len(rest["items"]), rest["next"]) == (1, None)

        assert user.post(f"/api/batches/{found['id']}/cancel").json() == {"cancelled": 4}
        assert user.get("/api/account").json()["balance"] == 20


def test_tools_are_listed_with_schema_and_price(server: Served, name: str) -> None:
    with server.client(server.account(name)) as user:
        tools = {tool["name"]: tool for tool in user.get("/api/tools").json()["items"]}

        assert tools["upscale"]["price"] == 5
        assert tools["images"]["price"] is None
        assert tools["upscale"]["schema"]["required"] == ["image"]
        assert "stroke by stroke" in tools["paint"]["description"]


def test_a_list_leaves_payloads_and_results_out_unless_they_are_asked_for(server: Served, name: str) -> None:
    texts = {"payload", "result", "resume_data", "partial"}
    with server.client(server.account(name)) as user:
        job = user.post("/api/jobs", json=SUBMIT).json()["job_id"]
        whole = user.get(f"/api/jobs/{job}").json()
        [listed] = user.get("/api/jobs").json()["items"]
        assert whole.keys() - listed.keys() == texts
        [listed] = user.get("/api/jobs", params={"include": "payload,result"}).json()["items"]
        assert (listed["payload"], listed["result"]) == (SUBMIT["payload"], None)
        assert texts - listed.keys() == {"resume_data", "partial"}
        refused(user.get("/api/jobs", params={"include": "payload,everything"}), 422, "INVALID_ARGUMENT")
        assert user.get("/api/jobs/active").json()["job"]["payload"] == SUBMIT["payload"]
    with server.client(server.admin) as admin:
        for path in ("/api/admin/dead", "/api/system/stuck"):
            assert admin.get(path, params={"include": "payload"}).status_code == 200
            refused(admin.get(path, params={"include": "secrets"}), 422, "INVALID_ARGUMENT")


def test_a_page_of_large_jobs_ends_early_and_goes_on(server: Served, name: str) -> None:
    large = {"tool": "anything", "payload": {"a": "x" * 200_000}}
    with server.client(server.account(name)) as user:
        ids = [user.post("/api/jobs", json=large).json()["job_id"] for _ in range(23)]
        found: list[str] = []
        sizes: list[int] = []
        cursor: dict[str, str] = {}
        while cursor is not None:
            page = user.get("/api/jobs", params={"include": "payload", "limit": 1_000, **cursor})
            assert len(page.content) <= 4 * 2**20 + 1_000
            found += [job["id"] for job in page.json()["items"]]
            sizes.append(len(page.json()["items"]))
            cursor = {"cursor": page.json()["next"]} if page.json()["next"] else None
        assert (found, len(sizes)) == (ids[::-1], 2)
