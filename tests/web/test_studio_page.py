"""The studio's page, as people use it: in Chromium, on both databases, with a provider that misbehaves when told."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser import Visitor
from tests.support.studio import Scene, check
from tests.support.studio_page import choose, credits_of, enter, fill_slots, free_slot, generate, jobs_of, ticket

Visit = Callable[..., Visitor]


def served_before(scene: Scene, *accounts: str) -> None:
    """Each account has had its first job, which goes ahead of others'."""
    with scene.studio.client(None) as door:
        for account in accounts:
            entered = door.post("/studio/enter", json={"account": account}).raise_for_status().json()
            with scene.studio.client(entered["token"]) as person:
                job = {"tool": "freestyle", "payload": {"prompt": "a lighthouse"}}
                person.post("/api/jobs", json=job, headers={"Prefer": "wait=20"}).raise_for_status()


@pytest.mark.req("D11", "D12", "A14")
def test_a_picture_is_chosen_paid_made_compared_and_found_in_the_library(scene: Scene, visit: Visit) -> None:
    visitor = visit()
    page = enter(visitor)
    before = credits_of(page)
    visitor.screenshot("empty")
    choose(page)
    expect(page.get_by_text(f"You will have {before - 6} credits left.")).to_be_visible()
    generate(page).click()
    expect(ticket(page)).to_contain_text("Done.")
    expect(page.get_by_role("button", name=re.compile("Top up"))).to_contain_text(f"{before - 6} credits")
    # The price of the next one is told from what is left now.
    expect(page.get_by_text(f"You will have {before - 12} credits left.")).to_be_visible()
    slider = page.get_by_role("slider", name="Compare before and after")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert float(slider.input_value()) < 50
    expect(page.locator("img[alt='Result 1']")).to_have_js_property("complete", True)
    assert page.locator("img[alt='Result 1']").evaluate("picture => picture.naturalWidth") > 0
    visitor.screenshot("done")
    page.get_by_role("button", name="Library").click()
    expect(page.locator("main img").first).to_be_visible()
    visitor.screenshot("library")


@pytest.mark.req("A2", "D11", "A5")
def test_two_people_stand_in_line_for_three_slots_and_see_it_move(scene: Scene, visit: Visit) -> None:
    served_before(scene, "davi", "caio")
    held = fill_slots(scene)
    davi, caio = visit(), visit(phone=True, dark=True)
    first, second = enter(davi, "Davi"), enter(caio, "Caio")
    choose(second)
    generate(second).click()
    expect(ticket(second)).to_contain_text(re.compile(r"You are (next|#1)"))
    choose(first)
    generate(first).click()
    # The higher plan goes ahead, and both see it.
    expect(ticket(first)).to_contain_text(re.compile(r"You are (next|#1)"))
    expect(ticket(second)).to_contain_text("You are #2")
    davi.screenshot("waiting")
    caio.screenshot("waiting")
    scene.plan(hold=True, provider="runninghub")
    free_slot(scene, held[0])
    expect(ticket(first)).to_contain_text("Making your picture")
    expect(ticket(second)).to_contain_text(re.compile(r"You are (next|#1)"))
    [made] = [job for job in jobs_of(scene, "davi") if job["status"] == "running"]
    for job in (*held[1:], made):
        free_slot(scene, job)
    for page in (first, second):
        expect(ticket(page)).to_contain_text("Done.")


@pytest.mark.req("A14")
def test_a_double_click_makes_one_job(scene: Scene, visit: Visit) -> None:
    page = enter(visit())
    choose(page)
    before = {job["id"] for job in jobs_of(scene, "davi")}
    generate(page).dblclick()
    expect(ticket(page)).to_contain_text("Done.")
    assert len({job["id"] for job in jobs_of(scene, "davi")} - before) == 1


@pytest.mark.req("A3", "A14", "D11")
def test_a_page_that_is_loaded_again_finds_the_job_that_is_under_way(scene: Scene, visit: Visit) -> None:
    scene.plan(hold=True, provider="runninghub")
    page = enter(visit())
    choose(page)
    generate(page).click()
    expect(ticket(page)).to_contain_text("Making your picture")
    page.reload()
    expect(ticket(page)).to_contain_text("Making your picture")
    [job] = [job for job in jobs_of(scene, "davi") if job["status"] == "running"]
    free_slot(scene, job)
    expect(ticket(page)).to_contain_text("Done.")


@pytest.mark.req("D11")
def test_a_network_that_is_cut_and_comes_back_loses_nothing(scene: Scene, visit: Visit) -> None:
    scene.plan(hold=True, provider="runninghub")
    visitor = visit()
    visitor.expected = re.compile("ERR_INTERNET_DISCONNECTED")
    page = enter(visitor)
    choose(page)
    generate(page).click()
    expect(ticket(page)).to_contain_text("Making your picture")
    visitor.set_offline(True)
    # Cutting the network does not cut what is open in this browser: the next connection cannot be made.
    page.evaluate("() => window.dispatchEvent(new Event('online'))")
    expect(ticket(page)).to_contain_text("Connection lost. Your job goes on.")
    visitor.screenshot("lost")
    [job] = [job for job in jobs_of(scene, "davi") if job["status"] == "running"]
    free_slot(scene, job)
    visitor.set_offline(False)
    expect(ticket(page)).to_contain_text("Done.")


@pytest.mark.req("A14")
def test_leaving_the_page_cancels_what_waits_and_coming_back_in_time_does_not(scene: Scene, visit: Visit) -> None:
    held = fill_slots(scene)
    page = enter(visit())
    choose(page)
    before = credits_of(page)
    generate(page).click()
    expect(ticket(page)).to_contain_text("You are")
    [job] = [job for job in jobs_of(scene, "davi") if job["status"] == "queued"]
    # A reload leaves the page, and is back before the grace is over.
    page.reload()
    expect(ticket(page)).to_contain_text("You are")
    page.goto("about:blank")
    check.until(
        lambda: next(one for one in jobs_of(scene, "davi") if one["id"] == job["id"])["status"] == "cancelled",
        "the job of a page that was left still waits",
    )
    page = enter(visit())
    expect(page.get_by_role("button", name=re.compile("Top up"))).to_contain_text(f"{before} credits")
    for one in held:
        free_slot(scene, one)


@pytest.mark.req("D11", "A4")
def test_a_failure_says_what_the_provider_said_and_the_credits_come_back(scene: Scene, visit: Visit) -> None:
    scene.plan(fail="CUDA out of memory", provider="runninghub")
    visitor = visit()
    page = enter(visitor)
    choose(page)
    before = credits_of(page)
    generate(page).click()
    expect(page.get_by_role("alert").filter(has_text="It failed")).to_contain_text("CUDA out of memory")
    expect(ticket(page)).to_contain_text("6 credits returned")
    expect(page.get_by_role("button", name=re.compile("Top up"))).to_contain_text(f"{before} credits")
    visitor.screenshot("failed")


def test_credits_are_bought_with_a_payment_that_is_simulated(visit: Visit) -> None:
    visitor = visit()
    page = enter(visitor)
    before = credits_of(page)
    page.get_by_role("button", name=re.compile("Top up")).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name=re.compile("declined")).check()
    dialog.get_by_role("button", name=re.compile("^Pay")).click()
    expect(dialog.get_by_role("alert")).to_contain_text("declined")
    assert credits_of(page) == before
    dialog.get_by_role("radio", name=re.compile("works")).check()
    dialog.get_by_role("button", name=re.compile("^Pay")).click()
    expect(page.get_by_role("button", name=re.compile(f"{before + 200} credits"))).to_be_visible()
    visitor.screenshot("paid")


def test_somebody_who_cannot_pay_reads_the_price_before_anything_is_uploaded(visit: Visit) -> None:
    page = enter(visit(), "Ana")
    page.locator("[data-tool=product]").get_by_role("button").click()
    page.get_by_role("button", name="vase", exact=True).click()
    page.get_by_role("radio", name="High").check()
    for _ in range(7):
        page.get_by_role("button", name="One more").click()
    expect(page.get_by_text(f"This costs 64; you have {credits_of(page)}.")).to_be_visible()
    page.get_by_role("complementary").get_by_role("button", name="Top up").click()
    expect(page.get_by_role("dialog")).to_contain_text("More credits")


def test_the_page_speaks_portuguese(visit: Visit) -> None:
    page = enter(visit(locale="pt-BR"))
    expect(page.get_by_role("button", name="Biblioteca")).to_be_visible()
    assert page.locator("html").get_attribute("lang") == "pt-BR"


@pytest.mark.long_on("phone-dark")
@pytest.mark.parametrize(
    ("phone", "dark"),
    [
        pytest.param(False, False, id="desktop-light"),
        pytest.param(True, True, id="phone-dark"),
        pytest.param(False, True, id="desktop-dark", marks=pytest.mark.long),
        pytest.param(True, False, id="phone-light", marks=pytest.mark.long),
    ],
)
def test_axe_finds_nothing_serious(scene: Scene, visit: Visit, phone: bool, dark: bool) -> None:
    visitor = visit(phone=phone, dark=dark)
    visitor.page.goto("/studio")
    expect(visitor.page.get_by_role("heading", level=1)).to_be_visible()
    assert visitor.violations() == []
    page = enter(visitor)
    choose(page)
    assert visitor.violations() == []
    generate(page).click()
    expect(ticket(page)).to_contain_text("Done.")
    assert visitor.violations() == []
    visitor.screenshot("done")
    page.get_by_role("button", name="Library").click()
    expect(page.locator("main img").first).to_be_visible()
    assert visitor.violations() == []
    page.get_by_role("button", name=re.compile("Top up")).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert visitor.violations() == []
