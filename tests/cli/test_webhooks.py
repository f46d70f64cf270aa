"""`ficha webhooks`: endpoints are added, listed, tested and removed, and messages sent again, from a terminal."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ficha import Ficha
from tests.cli.running import Run

pytestmark = pytest.mark.long_on("postgresql")

RECEIVER = "http://127.0.0.1:9/hook"


@pytest.fixture(autouse=True)
def sends_webhooks(folder: Path, monkeypatch: pytest.MonkeyPatch, shop: Callable[[], Ficha]) -> None:
    """The application, with webhooks."""
    text = (folder / "app.py").read_text()
    (folder / "app.py").write_text(text.replace("app = Ficha(", "app = Ficha(webhooks=True, ", 1))
    monkeypatch.setenv("FICHA_ALLOW_ADDRESSES", "127.0.0.0/8")


def test_an_endpoint_and_its_messages(ficha: Run, url: str, shop: Callable[[], Ficha]) -> None:
    ficha("account", "create", "ana", "--credits", "20")
    assert ficha("webhooks", "list", "--account", "ana").err == "no endpoints\n"
    added = ficha("webhooks", "add", RECEIVER, "--account", "ana", "--event", "job.failed", "--description", "mine")
    assert added.out.startswith("whsec_")
    assert "save it now" in added.err
    [row] = ficha("webhooks", "list", "--account", "ana", "--json").items
    webhook = row["id"]
    assert (row["url"], row["events"], row["description"], row["account"]) == (RECEIVER, ["job.failed"], "mine", "ana")
    rotated = ficha("webhooks", "rotate", webhook, "--overlap-hours", "1", "--account", "ana", "--json").data
    assert rotated["secret"] != added.out.strip()
    sent = ficha("webhooks", "test", webhook, "--account", "ana", "--json").data
    assert "a moment ago" in ficha("webhooks", "test", webhook, "--account", "ana", expect=1).err

    async def work() -> None:
        async with shop() as app:
            await app.run_worker(burst=True)

    asyncio.run(work())
    [message] = ficha("webhooks", "deliveries", "--account", "ana", "--state", "failed", "--json").items
    assert (message["id"], message["event"], message["attempts"]) == (sent["id"], "webhook.test", 1)
    assert "could not be reached" in message["error"]
    assert ficha("webhooks", "resend", sent["id"], "--account", "ana").err == f"message {sent['id']} is sent again\n"
    assert ficha("webhooks", "enable", webhook, "--account", "ana").err == f"endpoint {webhook} is enabled\n"
    assert "there is no webhook endpoint" in ficha("webhooks", "remove", webhook, expect=1).err
    assert ficha("webhooks", "remove", webhook, "--account", "ana").err == f"endpoint {webhook} is removed\n"
    acts = [line["act"] for line in ficha("audit", "--json").items]
    assert acts[:2] == ["remove_webhook", "enable_webhook"]
    assert ficha("verify", "--json").data["ok"]


def test_an_address_inside_is_refused(ficha: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FICHA_ALLOW_ADDRESSES")
    ficha("account", "create", "ana")
    refused = ficha("webhooks", "add", RECEIVER, "--account", "ana", expect=1)
    assert "leads to no public address" in refused.err
