"""The brakes in the console, as operators use them: in Chromium, on both databases."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.support.browser import Visitor
from tests.support.console import dialog, is_wider_than_window, open_page, operator, state
from tests.support.studio import Scene, check

Visit = Callable[..., Visitor]


def test_an_operator_pauses_and_closes_a_tool_and_lets_it_go_again(scene: Scene, visit: Visit) -> None:
    ana = scene.person()
    picture = ana.upload(check.portrait())
    visitor, watcher = operator(scene, visit), operator(scene, visit, "viewer", phone=True)
    page, phone = visitor.page, watcher.page

    def act(button: str, confirm: str, sentence: str | None = None) -> None:
        page.get_by_role("button", name=button, exact=True).click()
        if sentence is not None:
            dialog(page).get_by_label("Sentence for those who submit").fill(sentence)
        dialog(page).get_by_role("button", name=confirm, exact=True).click()
        expect(dialog(page)).to_have_count(0)

    row = page.get_by_role("row").filter(has_text="moods")
    open_page(page, "/tools")
    expect(row).to_contain_text("Open")
    try:
        page.get_by_role("button", name="Pause tool moods").click()
        expect(dialog(page)).to_contain_text("Submits are still accepted and charged.")
        visitor.screenshot("asked")
        dialog(page).get_by_role("button", name="Keep as it is").click()
        expect(row).to_contain_text("Open")
        act("Pause tool moods", "Pause moods")
        expect(row).to_contain_text("Paused")
        # Its job waits, and its page says why.
        job = ana.submit("moods", image=picture)["job_id"]
        open_page(page, f"/jobs/{job}")
        expect(state(page)).to_contain_text("The tool moods is paused. Its order is kept.")
        visitor.screenshot("waiting")
        # Closed, too: only with a sentence, which is what the customer reads.
        open_page(page, "/tools/moods")
        page.get_by_role("button", name="Close tool moods").click()
        dialog(page).get_by_role("button", name="Close moods").click()
        expect(dialog(page).get_by_role("alert")).to_contain_text("Write the sentence")
        dialog(page).get_by_role("button", name="Keep as it is").click()
        act("Close tool moods", "Close moods", "The lamps are being changed, until noon")
        expect(state(page)).to_contain_text("“The lamps are being changed, until noon.”")
        expect(state(page)).to_contain_text("changed")
        assert visitor.violations() == []
        visitor.screenshot("stopped")
        answer = ana.http.post("/api/jobs", json={"tool": "moods", "payload": {"image": picture}})
        assert (answer.status_code, answer.json()["code"]) == (409, "TOOL_CLOSED")
        assert "The lamps are being changed, until noon." in answer.json()["detail"]
        # A viewer reads the same on a phone, and has no button for it.
        for path in ("/tools", "/tools/moods", "/pools"):
            open_page(phone, path)
            expect(phone.locator("main")).to_contain_text(re.compile("(Tool moods is paused|The lamps are being)"))
            buttons = phone.locator("main").get_by_role("button", name=re.compile("^(Resume|Open) (tool|pool)"))
            expect(buttons).to_have_count(0)
            watcher.screenshot(path.strip("/").replace("/", "-"))
            assert watcher.violations() == []
            assert not is_wider_than_window(phone)
        open_page(page, "/tools")
        expect(row).to_contain_text("Closed")
        visitor.screenshot("tools-for-admins")
        assert visitor.violations() == []
        open_page(page, "/pools")
        expect(page.get_by_role("link", name="Tool moods is paused")).to_have_count(1)
        visitor.screenshot("pools-for-admins")
        open_page(page, "/tools/moods")
        act("Open tool moods", "Open moods")
        expect(state(page)).not_to_contain_text("The lamps")
        act("Resume tool moods", "Resume moods")
        expect(state(page)).to_contain_text("Open")
        assert ana.wait(job)["status"] == "completed"
        # The audit log tells who did it.
        open_page(page, "/audit?target=tool+moods")
        expect(page.get_by_role("row").filter(has_text=scene.studio.admin[:18])).to_have_count(4)
    finally:
        with scene.studio.client(scene.studio.admin) as admin:
            for word in ("open", "resume"):
                admin.post(f"/api/admin/tools/moods/{word}").raise_for_status()


def test_an_operator_closes_a_pool_and_its_tools_say_so(scene: Scene, visit: Visit) -> None:
    visitor = operator(scene, visit, phone=True)
    page = open_page(visitor.page, "/pools")
    card = page.get_by_role("row").filter(has=page.get_by_role("link", name="own", exact=True))
    try:
        page.get_by_role("button", name="Close pool own").click()
        expect(dialog(page)).to_contain_text("Submits to all its tools are refused")
        dialog(page).get_by_label("Sentence for those who submit").fill("The machine moves house.")
        visitor.screenshot("asked")
        assert visitor.violations() == []
        dialog(page).get_by_role("button", name="Close own").click()
        expect(card).to_contain_text("Closed")
        expect(card).to_contain_text("“The machine moves house.”")
        visitor.screenshot("closed")
        assert visitor.violations() == []
        assert not is_wider_than_window(page)
        open_page(page, "/tools/moods")
        expect(state(page)).to_contain_text("Pool own is closed: “The machine moves house.”")
        open_page(page, "/pools")
        page.get_by_role("button", name="Open pool own").click()
        dialog(page).get_by_role("button", name="Open own").click()
        expect(card).not_to_contain_text("Closed")
    finally:
        with scene.studio.client(scene.studio.admin) as admin:
            admin.post("/api/admin/pools/own/open").raise_for_status()
