"""Over HTTP: what is due by its age is counted and removed by admins alone, and so is an account."""

import pytest

from ficha import AccountClosed
from ficha.client import Client
from tests.server.test_bad_input import refused
from tests.support.server_process import Served


def test_an_admin_counts_and_removes_what_is_due(server: Served) -> None:
    with server.client(server.admin) as admin:
        counted = admin.post("/api/admin/prune", json={"dry_run": True})
        assert (counted.status_code, counted.json()["jobs"], counted.json()["dry_run"]) == (200, [], True)
        done = admin.post("/api/admin/prune", json={"max_seconds": 1}).json()
        assert (done["jobs"], done["more"]) == ([], False)
        refused(admin.post("/api/admin/prune", json={"max_seconds": 61}), 422, "INVALID_ARGUMENT")
    with server.client(server.service) as service:
        refused(service.post("/api/admin/prune", json={}), 403, "FORBIDDEN")


def test_an_erased_account_is_closed_to_its_own_keys_and_to_all_others(server: Served, name: str) -> None:
    key = server.account(name)
    with server.client(key) as user:
        job_id = user.post("/api/jobs", json={"tool": "embed", "payload": {"text": "harbour"}}).json()["job_id"]
        refused(user.post(f"/api/admin/accounts/{name}/erase"), 403, "FORBIDDEN")
    with Client(server.url, server.admin) as admin:
        erased = admin.erase(name)
        assert (erased.account, erased.cancelled, erased.jobs) == (name, 1, 1)
        assert admin.erase(name).jobs == 0
        acts = [line.act for line in admin.audit(target=f"account {name}").items]
        assert acts[:3] == ["erase_account", "erase_words", "erase_account"]
        with pytest.raises(AccountClosed):
            admin.submit("embed", {"text": "x"}, account=name)
    with server.client(server.admin) as whoever:
        refused(whoever.get(f"/api/jobs/{job_id}"), 404, "NOT_FOUND")
        refused(whoever.post("/api/admin/accounts/nobody-there/erase"), 404, "NOT_FOUND")
        problem = whoever.post("/api/jobs", json={"tool": "embed", "payload": {"text": "x"}, "account": name})
        refused(problem, 410, "ACCOUNT_CLOSED")
