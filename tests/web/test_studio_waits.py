"""A job of the studio that waits too long, as its owner sees it: in Chromium, on both databases."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser import Visitor
from tests.support.console import is_wider_than_window
from tests.support.studio import Scene
from tests.support.studio_page import choose, credits_of, enter, fill_slots, free_slot, generate, ticket

STUDIO = {"STUDIO_QUEUE_S": "4"}
"""How long a job may wait; ten minutes unless it is said."""


@pytest.mark.req("A8", "D11")
def test_the_page_says_that_a_job_waited_too_long_and_what_came_back(
    scene: Scene, visit: Callable[..., Visitor]
) -> None:
    held = fill_slots(scene)
    visitor = visit(phone=True)
    page = enter(visitor)
    before = credits_of(page)
    choose(page)
    generate(page).click()
    expect(ticket(page)).to_contain_text("You are")
    expect(ticket(page)).to_contain_text("Cancelled: it waited longer than 4 seconds. 6 credits returned.")
    expect(page.get_by_role("button", name=re.compile("Top up"))).to_contain_text(str(before))
    visitor.screenshot("waited-too-long")
    assert visitor.violations() == []
    assert not is_wider_than_window(page)
    for job in held:
        free_slot(scene, job)
