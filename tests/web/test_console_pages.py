"""The console, as operators use it: in Chromium, on both databases."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visitor
from tests.support.console import (
    FORMS,
    PAGES,
    SIGNED_OUT,
    ask,
    dialog,
    fill_in,
    is_wider_than_window,
    loaded,
    new_key,
    open_page,
    operator,
    sign_in,
    state,
)
from tests.support.studio import Scene, check

Visit = Callable[..., Visitor]


def dead_letters(scene: Scene, words: str, number: int = 1, person: Any = None) -> list[dict[str, Any]]:
    """Jobs that nobody has dealt with since the provider's machine failed, with these words."""
    person = person or scene.person()
    picture = person.upload(check.portrait())
    scene.plan(fail=words, crash=True, provider="fal", times=number)
    jobs = [person.submit("workflow", image=picture, prompt=f"in ink {one}")["job_id"] for one in range(number)]
    return [person.wait(job, "failed") for job in jobs]


def side(page: Page) -> Any:
    return page.get_by_role("complementary", name="Ficha")


def test_a_key_signs_in_and_is_kept_nowhere_in_the_page(scene: Scene, visit: Visit) -> None:
    visitor = visit()
    visitor.expected = SIGNED_OUT
    page = visitor.page
    page.goto("/console")
    fill_in(page, "ficha_no-such-key")
    expect(page.get_by_role("alert")).to_contain_text("Not accepted")
    visitor.screenshot("refused")
    fill_in(page, scene.studio.admin)
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    expect(side(page).get_by_text("admin · may act")).to_be_visible()
    kept = page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}]) + document.cookie + location")
    assert scene.studio.admin not in kept
    assert "ficha_sign_in" not in kept
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Ficha")
    # Back does not show what was read before, and a new load finds nobody.
    page.goto("/console/jobs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Ficha")


def test_an_address_that_was_opened_signed_out_is_opened_after_the_sign_in(scene: Scene, visit: Visit) -> None:
    visitor = visit()
    visitor.expected = SIGNED_OUT
    page = visitor.page
    page.goto("/console/jobs?search=state%3Afailed+tool%3Afreestyle")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Ficha")
    fill_in(page, scene.studio.admin)
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect(page.get_by_role("combobox", name="Search jobs")).to_have_value("state:failed tool:freestyle")


def test_a_key_that_is_revoked_leads_to_the_sign_in_and_back(scene: Scene, visit: Visit) -> None:
    key, key_id = new_key(scene, "admin")
    visitor = visit()
    visitor.expected = SIGNED_OUT
    page = open_page(sign_in(visitor, key), "/accounts?search=ana")
    with scene.studio.client(scene.studio.admin) as admin:
        admin.post(f"/api/admin/api-keys/{key_id}/revoke").raise_for_status()
    # The page asks again by itself, and is refused.
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Ficha")
    expect(page.get_by_text("Sign in to go on where you were.")).to_be_visible()
    fill_in(page, scene.studio.admin)
    expect(page.get_by_role("heading", level=1)).to_have_text("Accounts")
    assert "search=ana" in page.url


@pytest.mark.req("B6", "A4", "A6")
def test_an_operator_finds_a_dead_letter_reads_why_and_requeues_it(scene: Scene, visit: Visit) -> None:
    [job] = dead_letters(scene, "the lamp of the projector is broken")
    visitor = operator(scene, visit)
    page = open_page(visitor.page, "/dead-letters")
    page.get_by_role("row").filter(has_text="the lamp of the projector is broken").get_by_role("link").first.click()
    page.get_by_role("table").get_by_role("link", name=re.compile(job["id"][-8:])).click()
    expect(state(page)).to_contain_text("Failed, a dead letter")
    expect(state(page)).to_contain_text("the lamp of the projector is broken")
    visitor.screenshot("dead-letter")
    # Asked first, with the money; a no changes nothing.
    state(page).get_by_role("button", name="Requeue").click()
    expect(dialog(page)).to_contain_text(f"Requeue charges {job['account']} {job['cost']} credits")
    visitor.screenshot("asked")
    dialog(page).get_by_role("button", name="Keep as it is").click()
    expect(state(page)).to_contain_text("Failed, a dead letter")
    state(page).get_by_role("button", name="Requeue").click()
    dialog(page).get_by_role("button", name="Requeue the job").click()
    expect(page).not_to_have_url(re.compile(job["id"]))
    expect(page.get_by_role("link", name=re.compile(job["id"][-8:]))).to_be_visible()
    expect(state(page)).to_contain_text("Completed")
    open_page(page, "/audit")
    line = page.get_by_role("row").filter(has_text=re.compile(job["id"][-8:])).filter(has_text="requeue")
    # The audit log names a key by its beginning, which is no secret.
    expect(line.first).to_contain_text(scene.studio.admin[:18])


@pytest.mark.req("B6")
def test_all_dead_letters_of_one_kind_are_requeued_by_the_server(scene: Scene, visit: Visit) -> None:
    ana = scene.person()
    jobs = dead_letters(scene, "the curtain is on fire", 3, ana)
    visitor = operator(scene, visit)
    page = open_page(visitor.page, "/dead-letters")
    row = page.get_by_role("row").filter(has_text="the curtain is on fire")
    row.get_by_role("button", name="Requeue 3 of workflow").click()
    expect(dialog(page)).to_contain_text("3 jobs match")
    expect(dialog(page)).to_contain_text("Requeue charges 12 credits")
    # Nothing begins without a reason.
    dialog(page).get_by_role("button", name="Requeue 3 jobs").click()
    expect(dialog(page)).to_contain_text("Say why")
    visitor.screenshot("asked")
    dialog(page).get_by_label("Reason").fill("the fire is out")
    dialog(page).get_by_role("button", name="Requeue 3 jobs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Requeue of 3 jobs")
    expect(page.locator("main")).to_contain_text("the fire is out")
    expect(page.locator("main dd").filter(has_text="Done").first).to_be_visible()
    expect(page.get_by_text("3 done", exact=False).first).to_be_visible()
    visitor.screenshot("done")
    assert visitor.violations() == []
    open_page(page, "/bulk-acts")
    expect(page.get_by_role("row").filter(has_text="Requeue 3 jobs")).to_contain_text("Done")
    open_page(page, "/dead-letters")
    expect(page.get_by_role("row").filter(has_text="the curtain is on fire")).to_have_count(0)
    # Each job's act stands in the audit log in the operator's name.
    open_page(page, f"/audit?target=job+{jobs[0]['id']}")
    expect(page.get_by_role("row").filter(has_text="requeue")).to_contain_text(scene.studio.admin[:18])
    # They run again, and must not meet the failures that the next test plans for its own jobs.
    again = [job for job in ana.http.get("/api/jobs").json()["items"] if job["id"] not in {one["id"] for one in jobs}]
    assert [ana.wait(job["id"])["status"] for job in again] == ["completed"] * 3


def test_chosen_jobs_of_a_search_are_acted_on_together(scene: Scene, visit: Visit) -> None:
    ana = scene.person()
    dead_letters(scene, "the stage is wet", 2, ana)
    page = open_page(operator(scene, visit).page, f"/jobs?search=account%3A{ana.name}+dead%3Ayes")
    page.get_by_role("checkbox", name="Choose all rows of this page").check()
    bar = page.get_by_role("region", name="Chosen jobs")
    expect(bar).to_contain_text("2 jobs on this page")
    bar.get_by_role("button", name="Discard").click()
    dialog(page).get_by_label("Reason").fill("nobody needs them")
    dialog(page).get_by_role("button", name="Discard 2 jobs").click()
    expect(page.get_by_text("2 done", exact=False).first).to_be_visible()
    page.goto(f"/console/jobs?search=account%3A{ana.name}+dead%3Ayes")
    expect(page.get_by_text("No job matches.")).to_be_visible()


def test_all_rows_are_chosen_at_once_also_on_a_phone(scene: Scene, visit: Visit) -> None:
    ana = scene.person()
    for prompt in ("a boat", "a bridge"):
        ana.wait(ana.submit("freestyle", prompt=prompt)["job_id"])
    page = open_page(operator(scene, visit, phone=True).page, f"/jobs?search=account%3A{ana.name}")
    page.get_by_text("Choose all", exact=True).click()
    expect(page.get_by_role("region", name="Chosen jobs")).to_contain_text("2 jobs on this page")
    expect(page.get_by_role("checkbox", name="Choose all rows of this page")).to_be_checked()


@pytest.mark.req("D10")
def test_a_viewer_sees_everything_and_can_change_nothing(scene: Scene, visit: Visit) -> None:
    [job] = dead_letters(scene, "the tripod fell over")
    visitor = operator(scene, visit, "viewer")
    visitor.expected = re.compile("status of 403")
    page = visitor.page
    open_page(page, f"/jobs/{job['id']}")
    expect(state(page)).to_contain_text("the tripod fell over")
    expect(side(page).get_by_text("viewer · read only")).to_be_visible()
    acts = re.compile(
        "^(Requeue|Discard|Refund|Cancel|Grant|Adjust|Create|Open|Close|Pause (pool|tool)|Resize|Revoke|Change)"
    )
    about = (f"/jobs/{job['id']}", f"/accounts/{job['account']}", "/tools/moods")
    for path in (*about, "/dead-letters", "/pools", "/tools", "/keys", "/webhooks"):
        open_page(page, path)
        expect(page.locator("main").get_by_role("button", name=acts)).to_have_count(0)
    # The buttons are a courtesy; the server is the rule.
    refused = ask(page, "POST", f"/api/admin/dead/{job['id']}/requeue")
    assert (refused["status"], json.loads(refused["text"])["code"]) == (403, "FORBIDDEN")


@pytest.mark.req("D10")
def test_a_user_cannot_open_the_job_of_another(scene: Scene, visit: Visit) -> None:
    ana, bob = scene.person(), scene.person()
    job = bob.wait(bob.submit("freestyle", prompt="a secret garden")["job_id"])
    visitor = visit()
    visitor.expected = re.compile("status of 40[134]")
    page = visitor.page
    # The sign-in page says that such a key is not for the console.
    page.goto(f"/console/jobs/{job['id']}")
    key, _ = new_key(scene, "user", account=ana.name)
    fill_in(page, key)
    expect(page.get_by_role("alert")).to_contain_text('The console needs "admin"')
    # Even with the sign-in of a user, neither the address nor the interface opens it.
    sign_in(visitor, key)
    page.goto(f"/console/jobs/{job['id']}")
    expect(page.get_by_role("alert").first).to_contain_text("yours is a user key")
    expect(page.get_by_text("a secret garden")).to_have_count(0)
    visitor.screenshot("not-for-users")
    for path in (f"/api/admin/jobs/{job['id']}", f"/api/jobs/{job['id']}", f"/api/jobs/{job['id']}/files"):
        answer = ask(page, "GET", path)
        assert answer["status"] in (403, 404), answer
        assert "secret garden" not in answer["text"]


def test_the_page_of_a_running_job_shows_its_end_by_itself(scene: Scene, visit: Visit) -> None:
    scene.plan(hold=True, provider="replicate")
    ana = scene.person()
    job = ana.wait(ana.submit("freestyle", prompt="a lighthouse")["job_id"], "running")
    visitor = operator(scene, visit)
    page = open_page(visitor.page, f"/jobs/{job['id']}")
    expect(state(page)).to_contain_text("Running")
    visitor.screenshot("running")
    page.evaluate("() => { window.isSamePage = true; }")
    scene.release(scene.task_of(job))
    expect(state(page)).to_contain_text("Completed")
    expect(page.get_by_role("region", name="Result")).to_be_visible()
    assert page.evaluate("() => window.isSamePage")


def test_the_address_of_a_search_shows_the_same_list_to_another(scene: Scene, visit: Visit) -> None:
    ana = scene.person()
    jobs = dead_letters(scene, "the film is overexposed", 2, ana)
    ana.wait(ana.submit("freestyle", prompt="a boat")["job_id"])
    page = open_page(operator(scene, visit).page, "/jobs")
    box = page.get_by_role("combobox", name="Search jobs")
    box.fill(f'account:{ana.name} error:"overexposed"')
    box.press("Enter")
    rows = page.get_by_role("table", name="Jobs").locator("tbody tr")
    expect(rows).to_have_count(2)
    other = operator(scene, visit, "viewer", phone=True).page
    other.goto(page.url)
    loaded(other)
    shown = other.get_by_role("table", name="Jobs").locator("tbody tr")
    expect(shown).to_have_count(2)
    for job in jobs:
        expect(shown.filter(has_text=job["id"][-8:])).to_have_count(1)


def test_one_tab_of_the_messages_is_the_present_one(scene: Scene, visit: Visit) -> None:
    page = operator(scene, visit).page
    for query, name in (("", "All"), ("?state=pending", "Pending")):
        open_page(page, f"/webhooks{query}")
        tabs = page.get_by_role("navigation", name="Messages by state").get_by_role("link")
        expect(tabs.and_(page.locator("[aria-current=page]"))).to_have_text([name])


def test_a_search_with_a_mistake_says_where_it_is(scene: Scene, visit: Visit) -> None:
    visitor = operator(scene, visit)
    visitor.expected = re.compile("status of 422")
    page = open_page(visitor.page, "/jobs?search=tool%3Afreestyle+state%3Afaild")
    expect(page.get_by_role("alert").locator("mark")).to_contain_text("state:faild")
    visitor.screenshot("mistake")
    assert visitor.violations() == []


def focused(page: Page) -> str:
    """The name of what has the focus."""
    found: str = page.evaluate(
        "() => document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
    )
    return found


def test_the_keyboard_alone_reaches_pages_jobs_search_and_help(scene: Scene, visit: Visit) -> None:
    [job] = dead_letters(scene, "the shutter is stuck")
    page = open_page(operator(scene, visit).page, "/pools")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name=re.compile("Page, job id"))).to_be_focused()
    page.keyboard.type("audi")
    expect(page.get_by_role("option").first).to_contain_text("Audit")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit")
    page.keyboard.press("Control+k")
    page.keyboard.type(job["id"])
    expect(page.get_by_role("option", name=re.compile("Open job"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(state(page)).to_contain_text("the shutter is stuck")
    # `/` goes to the search, also from a page that has none; letters typed there are no commands.
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search jobs")
    expect(box).to_be_focused()
    page.keyboard.type("stuck")
    expect(box).to_have_value("stuck")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(box).not_to_be_focused()
    page.keyboard.press("?")
    expect(dialog(page)).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    page.keyboard.press("d")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")


def test_a_dialog_keeps_the_focus_and_gives_it_back(scene: Scene, visit: Visit) -> None:
    [job] = dead_letters(scene, "the flash did not fire")
    page = open_page(operator(scene, visit).page, f"/jobs/{job['id']}")
    button = state(page).get_by_role("button", name="Requeue")
    button.focus()
    page.keyboard.press("Enter")
    expect(dialog(page)).to_be_visible()
    for _ in range(6):
        page.keyboard.press("Tab")
        outside = page.evaluate(
            "() => document.activeElement !== document.body && !document.activeElement.closest('dialog')"
        )
        assert not outside, focused(page)
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    expect(button).to_be_focused()


class World:
    """A studio in which something is under way everywhere, and the pages about it."""

    def __init__(self, scene: Scene) -> None:
        ana = scene.person("growth", 500)
        picture = ana.upload(check.portrait(), "ana in the garden.png")
        made = ana.wait(ana.submit("moods", image=picture, images=3)["job_id"])
        [dead, *_] = dead_letters(scene, "the machine with the very long name gpu-17-eu-west ran out of memory", 3, ana)
        dead_letters(scene, "no answer within 30 s", 2)
        scene.plan(hold=True, provider="runninghub", times=3)
        bob = scene.person()
        picture = bob.upload(check.portrait())
        running, *_ = (bob.wait(bob.submit("pose_changer", image=picture)["job_id"], "running") for _ in range(3))
        queued = bob.submit("image_upscaler", image=picture)
        cancelled = bob.submit("pose_changer", image=picture)
        bob.http.post(f"/api/jobs/{cancelled['job_id']}/cancel", json={"reason": "I chose the wrong picture"})
        items = [{"tool": "freestyle", "payload": {"prompt": f"a boat at dusk, number {one}"}} for one in range(12)]
        batch = ana.http.post("/api/batches", json={"items": items, "session": "an evening"}).raise_for_status().json()
        with scene.studio.client(scene.studio.admin) as admin:
            grant = {"amount": 50, "reason": "for the evening that was lost"}
            admin.post(f"/api/admin/accounts/{ana.name}/grant", json=grant).raise_for_status()
            gift = {"act": "refund", "search": f"account:{ana.name} tool:moods", "reason": "the colours were wrong"}
            bulk = admin.post("/api/admin/bulk-acts", json=gift).raise_for_status().json()
        self.kinds = {
            **PAGES,
            "job": f"/jobs/{made['id']}",
            "batch": f"/batches/{batch['batch_id']}",
            "account": f"/accounts/{ana.name}",
            "tool": "/tools/moods",
            "not-found": "/no-such-page",
        }
        """A page of each kind."""
        self.more = {
            "jobs-found": "/jobs?search=state%3Afailed+dead%3Ayes",
            "job-dead": f"/jobs/{dead['id']}",
            "job-running": f"/jobs/{running['id']}",
            "job-queued": f"/jobs/{queued['job_id']}",
            "job-cancelled": f"/jobs/{cancelled['job_id']}",
            "job-missing": f"/jobs/{uuid4()}",
            "dead-letters-of-one-kind": "/dead-letters?group=dead%3Ayes+tool%3Aworkflow",
            "bulk-act": f"/bulk-acts?act={bulk['id']}",
            "account-files": f"/accounts/{ana.name}?tab=files",
            "account-webhooks": f"/accounts/{ana.name}?tab=webhooks",
            "account-keys": f"/accounts/{ana.name}?tab=keys",
            "account-missing": "/accounts/nobody",
        }
        """Other states of them."""


@pytest.fixture(scope="module")
def world(studio: Any) -> Iterator[World]:
    scene = Scene(studio)
    try:
        yield World(scene)
    finally:
        scene.close()


AXE_SOON = ("overview", "jobs", "job", "account")
"""The pages with the most on them. Axe takes a second for a page: `make test-all` has it look at all of them."""


@pytest.mark.long_on("phone-dark")
@pytest.mark.parametrize("studio", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True)
@pytest.mark.parametrize(("phone", "dark"), FORMS)
def test_every_page_is_whole_in_every_form(
    scene: Scene, world: World, visit: Visit, request: pytest.FixtureRequest, phone: bool, dark: bool
) -> None:
    visitor = visit(phone=phone, dark=dark)
    visitor.expected = re.compile("status of 40[14]")
    page = visitor.page
    page.goto("/console")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Ficha")
    visitor.screenshot("sign-in")
    wrong = [f"sign-in: {one}" for one in visitor.violations()]
    sign_in(visitor, scene.studio.admin)
    is_long = request.node.get_closest_marker("long") is not None
    for title, path in {**world.kinds, **(world.more if is_long else {})}.items():
        open_page(page, path)
        visitor.screenshot(title)
        if is_long or title in AXE_SOON:
            wrong += [f"{title}: {one}" for one in visitor.violations()]
        if phone and is_wider_than_window(page):
            wrong.append(f"{title}: the page scrolls sideways")
    assert wrong == []
