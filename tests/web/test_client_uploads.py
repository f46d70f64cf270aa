"""`@ficha/client` in a page, against a real server: files are sent under a reservation, and none is left held."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route

from tests.support.browser import Visitor
from tests.support.server_process import Served
from tests.support.waiting import until_sync

CLIENT = "web/client/dist/index.js"
BEGIN = """async ([client, token]) => {
    const { createFicha } = await import(client);
    window.ficha = createFicha({ token });
    window.order = (text) => {
        window.leaving = new AbortController();
        const picture = new File([text], "cat.txt", { lastModified: 1 });
        return window.ficha.submit("copy", { picture }, { signal: window.leaving.signal }).then(
            (job) => ({ job: job.id }),
            ({ name, code, members }) => ({ code: name === "FichaError" ? code : name, members }),
        );
    };
}"""
ORDER = "(text) => window.order(text)"
BEGIN_ORDER = "(text) => { window.ordered = window.order(text); }"
NO_FAULT = re.compile("Failed to load resource: the server responded with a status of 4")
numbers = count(1)


class Orders:
    """A page of an account that may have one active job, and the account's own view of its reservations."""

    def __init__(self, page: Page, user: httpx.Client, token: str) -> None:
        self.page = page
        self.user = user
        self.uploads: list[Route] = []
        self._token = token
        self.begin()

    def begin(self) -> None:
        self.page.goto("/docs")
        self.page.evaluate(BEGIN, ["/ficha-client.js", self._token])

    def order(self, text: str) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(ORDER, text)
        return found

    def hold_uploads(self) -> None:
        self.page.route("**/api/uploads?**", lambda route: self.uploads.append(route))

    def order_and_hold(self, text: str) -> Route:
        """The upload of an order that is under way, before the server has it."""
        self.hold_uploads()
        self.page.evaluate(BEGIN_ORDER, text)
        # The browser tells of the request while it is asked something.
        until_sync(lambda: self.page.evaluate("true") and self.uploads, what="an upload under way")
        assert self.states() == ["active"]
        self.page.unroute("**/api/uploads?**")
        return self.uploads.pop()

    def ordered(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate("() => window.ordered")
        return found

    def holds(self) -> list[dict[str, Any]]:
        """Newest first."""
        found: list[dict[str, Any]] = self.user.get("/api/reservations").raise_for_status().json()["items"]
        return found

    def states(self) -> list[str]:
        return [held["state"] for held in self.holds()]

    def until_free(self) -> None:
        until_sync(lambda: "active" not in self.states(), what="no slot is held")


@pytest.fixture
def orders(shop: Served, visit_shop: Callable[..., Visitor]) -> Iterator[Orders]:
    token = shop.account(f"orders{next(numbers)}", plan="single")
    visitor = visit_shop()
    visitor.expected = NO_FAULT
    visitor.page.route("**/ficha-client.js", lambda route: route.fulfill(path=CLIENT, content_type="text/javascript"))
    with shop.client(token) as user:
        yield Orders(visitor.page, user, token)


def test_an_order_with_a_file_uses_the_slot_that_was_held_for_it(orders: Orders) -> None:
    made = orders.order("a picture")
    [held] = orders.holds()
    assert (held["state"], held["job_id"]) == ("consumed", made["job"])
    [file] = orders.user.get("/api/files").json()["items"]
    assert file["reservation"] == held["id"]


def test_a_person_over_quota_learns_it_before_the_file_is_sent(orders: Orders) -> None:
    made = orders.order("one")
    orders.hold_uploads()
    refused = orders.order("two")
    assert (refused["code"], refused["members"]["job_id"]) == ("ACTIVE_JOB_EXISTS", made["job"])
    assert orders.uploads == []
    assert orders.states() == ["consumed"]


def test_an_order_that_is_called_off_leaves_nothing_held(orders: Orders) -> None:
    orders.order_and_hold("one")
    orders.page.evaluate("() => window.leaving.abort()")
    assert orders.ordered()["code"] == "AbortError"
    orders.until_free()
    assert "job" in orders.order("two")


def test_a_page_that_is_left_leaves_nothing_held(orders: Orders) -> None:
    orders.order_and_hold("one")
    orders.begin()
    orders.until_free()
    assert "job" in orders.order("one")
    assert orders.states() == ["consumed", "released"]


def test_an_order_whose_slot_ran_out_goes_on_without(orders: Orders) -> None:
    upload = orders.order_and_hold("one")
    [held] = orders.holds()
    orders.user.post(f"/api/reservations/{held['id']}/release").raise_for_status()
    upload.continue_()
    assert "job" in orders.ordered()


def test_an_order_whose_slot_another_took_meanwhile_is_refused(orders: Orders) -> None:
    upload = orders.order_and_hold("one")
    [held] = orders.holds()
    orders.user.post(f"/api/reservations/{held['id']}/release").raise_for_status()
    orders.user.post("/api/jobs", json={"tool": "paint", "payload": {"prompt": "a lighthouse"}}).raise_for_status()
    upload.continue_()
    assert orders.ordered()["code"] == "ACTIVE_JOB_EXISTS"
