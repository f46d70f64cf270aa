"""What users and operators wrote is text on every page of the console, whatever it looks like."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visitor
from tests.support.console import address, open_page, sign_in
from tests.support.server_process import Served

WORDS = """<script>window.ran=true</script><img src=x onerror="window.ran=true">'"""
"""Runs wherever it is taken for HTML."""


class Written:
    """A database in which every text that somebody can write is `WORDS`."""

    def __init__(self, shop: Served) -> None:
        self.shop = shop
        with shop.client(shop.account(WORDS)) as user, shop.client(shop.service) as service:
            self.user, self.service = user, service
            self.file = self._ask(user, "/api/uploads", files={"file": (WORDS, b"a picture")})["file"]["id"]
            self.completed, self.failed, self.cancelled, self.running = (self._submit() for _ in range(4))
            self._work()
            items = [{"tool": "paint", "payload": {"prompt": WORDS}}]
            asked = {"items": items, "session": WORDS, "correlation_id": WORDS}
            self.batch = self._ask(user, "/api/batches", json=asked)["batch_id"]
        with shop.client(shop.admin) as admin:
            account = quote(WORDS, safe="")
            self._ask(admin, f"/api/admin/accounts/{account}/grant", json={"amount": 5, "reason": WORDS})
            self._ask(admin, "/api/admin/api-keys", json={"name": WORDS, "scope": "viewer"})
            hook = {"url": f"http://127.0.0.1:9/{quote(WORDS)}", "account": WORDS, "description": WORDS}
            self._ask(admin, "/api/webhook-endpoints", json=hook)
            self._ask(admin, "/api/webhook-endpoints", json={**hook, "account": None})

    @staticmethod
    def _ask(client: Any, path: str, **more: Any) -> Any:
        answer = client.post(path, **more)
        assert answer.status_code in (200, 201, 204), f"{path}: {answer.text}"
        return answer.json() if answer.content else None

    def _submit(self) -> str:
        asked = {"tool": "copy", "payload": {"picture": self.file}, "session": WORDS, "correlation_id": WORDS}
        job: str = self._ask(self.user, "/api/jobs", json=asked)["job_id"]
        return job

    def _work(self) -> None:
        """As a worker would that has this name and writes such things wherever it can."""
        lease = self.shop.take(self.completed, WORDS)
        self._ask(self.service, "/api/worker/log", json={**lease, "text": WORDS})
        self._ask(self.service, "/api/worker/step", json={**lease, "name": WORDS, "result": {WORDS: WORDS}})
        self._ask(self.service, "/api/worker/report", json={**lease, "progress": 10, "partial": {WORDS: WORDS}})
        end = {"outcome": "completed", "result": {WORDS: [WORDS, {"html": WORDS}]}}
        self._ask(self.service, "/api/worker/finish", json={**lease, **end})
        lease = self.shop.take(self.failed, WORDS)
        end = {"outcome": "failed", "error": WORDS}
        self._ask(self.service, "/api/worker/finish", json={**lease, **end})
        self._ask(self.user, f"/api/jobs/{self.cancelled}/cancel", json={"reason": WORDS})
        lease = self.shop.take(self.running, WORDS)
        self._ask(self.service, "/api/worker/log", json={**lease, "text": WORDS})
        self._ask(self.service, "/api/worker/report", json={**lease, "progress": 10, "partial": {WORDS: WORDS}})

    def pages(self) -> list[tuple[str, bool]]:
        """The addresses, and whether the words must stand there."""
        account = address("accounts", WORDS)
        search = f"?search={quote('account:' + chr(34) + WORDS.replace(chr(34), chr(92) + chr(34)) + chr(34))}"
        return [
            ("/", False),
            ("/jobs", True),
            (f"/jobs{search}", True),
            *((f"/jobs/{job}", True) for job in (self.completed, self.failed, self.cancelled, self.running)),
            ("/dead-letters", True),
            ("/dead-letters?group=dead%3Ayes", True),
            ("/batches", True),
            (f"/batches/{self.batch}", True),
            ("/bulk-acts", False),
            ("/accounts", True),
            *((f"{account}?tab={tab}", True) for tab in ("ledger", "files", "webhooks", "keys")),
            ("/pools", False),
            ("/workers", True),
            ("/providers", False),
            ("/tools", False),
            ("/tools/copy", False),
            ("/webhooks", True),
            (f"/webhooks?account={quote(WORDS)}", True),
            ("/keys", True),
            ("/audit", True),
            (f"/audit?actor={quote(WORDS)}", False),
            (f"/accounts?search={quote(WORDS)}", True),
            (address("tools", WORDS), True),
            (address("jobs", WORDS), True),
            (address(WORDS), False),
        ]


@pytest.fixture(scope="module")
def written(shop: Served) -> Written:
    return Written(shop)


def unfold(page: Page) -> None:
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")


def what_ran(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(
        """() => ({
            ran: window.ran ?? null,
            made: document.querySelectorAll('img[src="x"], script:not([src]), [onerror]').length,
        })"""
    )
    return found


@pytest.mark.parametrize("shop", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True)
@pytest.mark.req("D10")
def test_a_stored_script_is_text_on_every_page(
    shop: Served, written: Written, visit_shop: Callable[..., Visitor]
) -> None:
    visitor = visit_shop()
    # The address of a job that cannot be.
    visitor.expected = re.compile("status of 404")
    page = sign_in(visitor, shop.admin)
    asked: list[str] = []
    page.on("dialog", lambda one: (asked.append(one.message), one.dismiss()))
    for path, is_shown in written.pages():
        open_page(page, path)
        unfold(page)
        if is_shown:
            expect(page.get_by_text(WORDS).first, f"{path} does not show it as text").to_be_attached()
        assert what_ran(page) == {"ran": None, "made": 0}, path
    # What is offered while somebody types, and what an act asks.
    open_page(page, "/jobs")
    page.keyboard.press("Control+k")
    page.keyboard.type(WORDS[:20])
    expect(page.get_by_role("option").filter(has_text=WORDS).first).to_be_visible()
    assert what_ran(page) == {"ran": None, "made": 0}
    open_page(page, address("accounts", WORDS))
    page.get_by_role("button", name="Grant").click()
    expect(page.get_by_role("dialog")).to_contain_text(WORDS)
    assert what_ran(page) == {"ran": None, "made": 0}
    assert asked == []
