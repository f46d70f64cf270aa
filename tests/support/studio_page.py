"""The studio's page in a browser window: who enters, what the page says, and what the account has."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.support.browser import Visitor
from tests.support.studio import Scene, check


def enter(visitor: Visitor, name: str = "Davi") -> Page:
    """Opens the page as one of its people."""
    page = visitor.page
    page.goto("/studio")
    page.get_by_role("button", name=re.compile(name, re.IGNORECASE)).click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def choose(page: Page, tool: str = "image_upscaler") -> None:
    """Picks a tool and a sample picture; the price is known then."""
    page.locator(f"[data-tool={tool}]").get_by_role("button").click()
    page.get_by_role("button", name="person", exact=True).click()
    expect(generate(page)).to_have_accessible_name(re.compile(r"\d credits"))
    expect(generate(page)).to_be_enabled()


def generate(page: Page) -> Any:
    return page.get_by_role("button", name=re.compile("^Generate"))


def ticket(page: Page) -> Any:
    """What the page says of the job, as a screen reader hears it."""
    return page.get_by_role("region", name="Your ticket")


def credits_of(page: Page) -> int:
    """The balance, once it is known."""
    button = page.get_by_role("button", name=re.compile("Top up"))
    expect(button).to_have_text(re.compile(r"\d"))
    return int(re.sub(r"\D", "", button.inner_text().split("credit")[0]))


def jobs_of(scene: Scene, account: str) -> list[dict[str, Any]]:
    with scene.studio.client(scene.studio.admin) as admin:
        found: list[dict[str, Any]] = (
            admin.get("/api/jobs", params={"account": account}).raise_for_status().json()["items"]
        )
    return found


def fill_slots(scene: Scene) -> list[dict[str, Any]]:
    """Three jobs that stay at the provider until they are released: the pool of three slots is full."""
    scene.plan(hold=True, provider="runninghub", times=3)
    bob = scene.person()
    picture = bob.upload(check.portrait())
    return [bob.wait(bob.submit("pose_changer", image=picture)["job_id"], "running") for _ in range(3)]


def free_slot(scene: Scene, job: dict[str, Any]) -> None:
    scene.release(scene.task_of(job))
