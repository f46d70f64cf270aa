"""The operator's console in a browser window: how somebody signs in, opens a page, and knows that it has loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visitor
from tests.support.studio import Scene

SIGNED_OUT = re.compile("status of 401")
"""What the browser writes down when nobody is signed in: the console asks the server who is there."""

PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "dead-letters": "/dead-letters",
    "batches": "/batches",
    "bulk-acts": "/bulk-acts",
    "accounts": "/accounts",
    "pools": "/pools",
    "workers": "/workers",
    "providers": "/providers",
    "tools": "/tools",
    "webhooks": "/webhooks",
    "keys": "/keys",
    "audit": "/audit",
}
"""The pages that need no thing to be about."""
FORMS = [
    pytest.param(False, False, id="desktop-light"),
    pytest.param(True, True, id="phone-dark"),
    pytest.param(False, True, id="desktop-dark", marks=pytest.mark.long),
    pytest.param(True, False, id="phone-light", marks=pytest.mark.long),
]
"""Whether the window is a phone's, and whether it is dark."""


def sign_in(visitor: Visitor, token: str) -> Page:
    """Signs the window in without the form, which only its own test needs to fill in."""
    page = visitor.page
    answer = page.request.post(f"{visitor.url}/api/sign-in", data={"token": token}, headers={"Origin": visitor.url})
    assert answer.ok, answer.text()
    return page


def operator(scene: Scene, visit: Callable[..., Visitor], scope: str = "admin", **window: Any) -> Visitor:
    """A window in which somebody with a key of this scope is signed in."""
    visitor = visit(**window)
    sign_in(visitor, scene.studio.admin if scope == "admin" else new_key(scene, scope)[0])
    return visitor


def new_key(scene: Scene, scope: str, **more: Any) -> tuple[str, str]:
    """A new key: its secret and its id."""
    with scene.studio.client(scene.studio.admin) as admin:
        asked = {"name": f"{scope} {uuid4().hex[:8]}", "scope": scope, **more}
        made = admin.post("/api/admin/api-keys", json=asked).raise_for_status().json()
    return made["secret"], made["key"]["id"]


def fill_in(page: Page, token: str) -> None:
    """Signs in through the form."""
    page.get_by_label("API key or token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def open_page(page: Page, path: str) -> Page:
    """Opens a page of the console by its address, and waits for what it shows."""
    page.goto(f"/console{path}")
    return loaded(page)


def loaded(page: Page) -> Page:
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    return page


def dialog(page: Page) -> Any:
    return page.get_by_role("dialog")


def state(page: Page) -> Any:
    """What the job's page says of the job."""
    return page.get_by_role("region", name="State", exact=True)


def address(*parts: str) -> str:
    """The path of a page about one thing, whatever its name holds."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def is_wider_than_window(page: Page) -> bool:
    """Whether the page scrolls sideways, and then by which elements."""
    return bool(page.evaluate("() => document.documentElement.scrollWidth > window.innerWidth"))


def ask(page: Page, method: str, path: str, body: object = None) -> dict[str, Any]:
    """A request as a script of the page makes it, with the page's own sign-in."""
    found: dict[str, Any] = page.evaluate(
        """async ([method, path, body]) => {
            const headers = {"Content-Type": "application/json"};
            const answer = await fetch(path, {method, headers, body: body === null ? undefined : JSON.stringify(body)});
            return {status: answer.status, text: await answer.text()};
        }""",
        [method, path, body],
    )
    return found
