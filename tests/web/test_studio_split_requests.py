"""A request that is split into two jobs is one thing on the studio's page: in Chromium, on both databases."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visitor
from tests.support.console import is_wider_than_window
from tests.support.studio import Scene, check
from tests.support.studio_page import credits_of, enter, free_slot, generate, jobs_of, ticket

Visit = Callable[..., Visitor]


def order_eight(scene: Scene, page: Page) -> list[dict[str, Any]]:
    """Orders eight pictures, which two jobs make; the provider holds both. Returns the jobs, in their order."""
    before = {job["id"] for job in jobs_of(scene, "davi")}
    scene.plan(hold=True, provider="replicate", times=2)
    page.locator("[data-tool=freestyle]").get_by_role("button").click()
    page.get_by_label("Prompt").fill("an orchard in bloom")
    for _ in range(7):
        page.get_by_role("button", name="One more").click()
    expect(generate(page)).to_have_accessible_name(re.compile("32 credits"))
    generate(page).click()
    expect(ticket(page)).to_contain_text("Making your pictures")

    def parts() -> list[dict[str, Any]]:
        return sorted((job for job in jobs_of(scene, "davi") if job["id"] not in before), key=lambda job: job["id"])

    check.until(lambda: [job["status"] for job in parts()] == ["running"] * 2, "the two jobs do not run")
    return parts()


def pictures(page: Page) -> Any:
    """The pictures of the row that have come; places of those that are missing have none."""
    return page.locator("main section ul li button img")


def are_seen(page: Page) -> bool:
    """Whether no picture is cut off by the edge of its row."""
    row = pictures(page).first.locator("xpath=ancestor::ul")
    return bool(row.evaluate("row => row.scrollWidth <= row.clientWidth && row.scrollHeight <= row.clientHeight"))


@pytest.mark.req("D11", "A4")
def test_eight_pictures_of_two_jobs_are_one_ticket_also_after_a_reload(scene: Scene, visit: Visit) -> None:
    visitor = visit()
    page = enter(visitor)
    before = credits_of(page)
    first, second = order_eight(scene, page)
    expect(page.get_by_role("button", name=re.compile("Top up"))).to_contain_text(f"{before - 32} credits")
    visitor.screenshot("ordered")
    # The later job ends first: its pictures are shown, and the places of the others wait.
    free_slot(scene, second)
    expect(ticket(page)).to_contain_text("50 %")
    expect(pictures(page)).to_have_count(4)
    visitor.screenshot("half")
    page.reload()
    expect(ticket(page)).to_contain_text("50 %")
    expect(pictures(page)).to_have_count(4)
    expect(ticket(page).get_by_role("button", name="Cancel")).to_have_count(1)
    assert visitor.violations() == []
    free_slot(scene, first)
    expect(ticket(page)).to_contain_text("Done.")
    expect(pictures(page)).to_have_count(8)
    assert are_seen(page)
    expect(page.get_by_role("button", name=re.compile("Top up"))).to_contain_text(f"{before - 32} credits")
    visitor.screenshot("done")
    assert visitor.violations() == []


@pytest.mark.req("D11", "A4")
def test_a_cancel_in_the_middle_keeps_what_was_delivered_and_refunds_the_rest(scene: Scene, visit: Visit) -> None:
    visitor = visit(phone=True)
    page = enter(visitor)
    before = credits_of(page)
    first, _second = order_eight(scene, page)
    free_slot(scene, first)
    expect(pictures(page)).to_have_count(4)
    visitor.screenshot("half")
    assert not is_wider_than_window(page)
    ticket(page).get_by_role("button", name="Cancel").click()
    expect(ticket(page)).to_contain_text("4 of 8 made, 16 credits returned.")
    expect(page.get_by_role("button", name=re.compile("Top up"))).to_contain_text(f"{before - 16} credits")
    for _ in range(2):
        expect(pictures(page)).to_have_count(4)
        expect(page.locator("img[alt='Result 1']").first).to_have_js_property("complete", True)
        visitor.screenshot("cancelled")
        assert are_seen(page)
        assert visitor.violations() == []
        assert not is_wider_than_window(page)
        # Also when the page is loaded again.
        page.reload()
        expect(ticket(page)).to_contain_text("4 of 8 made, 16 credits returned.")
