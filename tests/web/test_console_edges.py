"""The console when there is nothing to show, and when the server fails: it says so, and offers what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.browser import Visitor
from tests.support.console import FORMS, PAGES, is_wider_than_window, loaded, open_page, sign_in
from tests.support.server_process import Served

VisitShop = Callable[..., Visitor]
FAILING = "The database does not answer."
ON_SQLITE = pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
"""The pages are the same on each database; only what they show comes from there."""


def fail(page: Page, path: str | re.Pattern[str]) -> None:
    """From now on the server fails where the path fits."""
    problem = {"status": 503, "code": "UNAVAILABLE", "detail": FAILING, "retryable": True, "retry_after_s": 0}

    def answer(route: Route) -> None:
        route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(problem))

    page.route(path, answer)


@pytest.mark.long
@ON_SQLITE
@pytest.mark.parametrize(
    ("phone", "dark"), [FORMS[0], *(pytest.param(*one.values, id=one.id, marks=pytest.mark.long) for one in FORMS[1:])]
)
def test_pages_with_nothing_to_show_say_so(shop: Served, visit_shop: VisitShop, phone: bool, dark: bool) -> None:
    visitor = visit_shop(phone=phone, dark=dark)
    page = sign_in(visitor, shop.admin)
    wrong: list[str] = []
    for title, path in PAGES.items():
        open_page(page, path)
        visitor.screenshot(f"{title}-empty")
        wrong += [f"{path}: {one}" for one in visitor.violations()]
        if phone and is_wider_than_window(page):
            wrong.append(f"{path} is wider than a phone")
    assert wrong == []


@ON_SQLITE
def test_a_page_that_the_server_fails_says_so_and_can_be_tried_again(shop: Served, visit_shop: VisitShop) -> None:
    visitor = visit_shop()
    visitor.expected = re.compile(f"status of 503|{FAILING}")
    page = sign_in(visitor, shop.admin)
    for title, path in PAGES.items():
        fail(page, re.compile(r"/api/(?!sign-in)"))
        page.goto(f"/console{path}")
        alert = page.locator("main").get_by_role("alert").filter(has_text=FAILING)
        expect(alert.first, path).to_be_visible()
        visitor.screenshot(f"{title}-failing")
        page.unroute_all()
        # The frame of the page stands, and what failed can be asked for again.
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        page.locator("main").get_by_role("button", name="Try again").evaluate_all(
            "all => all.forEach(one => one.click())"
        )
        expect(alert, path).to_have_count(0)
        loaded(page)
    fail(page, re.compile(r"/api/"))
    page.goto("/console/pools")
    expect(page.get_by_text(FAILING)).to_be_visible()
    visitor.screenshot("sign-in-failing")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pools")


@ON_SQLITE
def test_one_part_that_fails_leaves_the_rest_of_the_page(shop: Served, visit_shop: VisitShop) -> None:
    shop.account("ana", credits=77)
    visitor = visit_shop()
    visitor.expected = re.compile("status of 503")
    page = sign_in(visitor, shop.admin)
    fail(page, "**/ledger*")
    open_page(page, "/accounts/ana")
    alert = page.get_by_role("alert").filter(has_text="Could not load the ledger.")
    expect(alert).to_be_visible()
    expect(page.locator("main")).to_contain_text("77 credits")
    page.unroute_all()
    alert.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("table", name="Ledger of ana")).to_be_visible()
    # What was read before stays when it cannot be read again.
    open_page(page, "/accounts")
    expect(page.get_by_role("row").filter(has_text="ana")).to_be_visible()
    fail(page, "**/api/admin/accounts*")
    expect(page.get_by_role("alert").filter(has_text="Could not refresh the accounts")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="ana")).to_be_visible()
    visitor.screenshot("old")
    assert visitor.violations() == []


@ON_SQLITE
def test_an_alert_leads_to_what_it_is_about(shop: Served, visit_shop: VisitShop) -> None:
    shop.account("ben")
    with shop.client(shop.service) as service:
        asked = {"tool": "paint", "payload": {"prompt": "a boat"}, "account": "ben"}
        assert service.post("/api/jobs", json=asked).status_code == 201
    alert = {
        "code": "JOBS_STUCK",
        "severity": "warning",
        "text": "11 jobs are stuck.",
        "link": "/jobs?search=stuck:yes",
    }

    def add(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "alerts": [alert]})

    page = sign_in(visit_shop(), shop.admin)
    page.route("**/api/admin/overview*", add)
    open_page(page, "/")
    page.get_by_role("region", name="Alerts").get_by_role("link", name="Look").click()
    expect(page.get_by_role("combobox", name="Search jobs")).to_have_value("stuck:yes")


@ON_SQLITE
def test_charts_have_colours_for_those_who_want_less_motion(shop: Served, visit_shop: VisitShop) -> None:
    shop.account("cid")
    with shop.client(shop.service) as service:
        asked = {"tool": "paint", "payload": {"prompt": "a boat"}, "account": "cid"}
        assert service.post("/api/jobs", json=asked).status_code == 201
    # Every window of these tests asks for reduced motion.
    page = open_page(sign_in(visit_shop(), shop.admin), "/")
    canvas = page.get_by_role("region", name="Queue depth").locator("canvas")
    page.wait_for_function(
        """canvas => {
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            for (let at = 0; at < data.length; at += 4) {
                const [red, green, blue, opacity] = data.subarray(at, at + 4);
                // The colours of pixels at the edge of a line are not exact.
                if (opacity === 255 && Math.max(red, green, blue) - Math.min(red, green, blue) > 80) return true;
            }
            return false;
        }""",
        arg=canvas.element_handle(),
    )
